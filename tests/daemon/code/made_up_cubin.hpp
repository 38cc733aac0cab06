#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <elf.h>

namespace penstock::testing {

/// A kernel of a made-up cubin.
struct made_up_kernel {
  std::string symbol;
  std::vector<std::uint32_t> parameters;  ///< bytes of each
  std::uint32_t registers = 0;
  std::uint32_t stack = 0;
  std::uint32_t shared = 0;
};

/// An ELF file with what usage_of reads of a cubin, as ptxas writes it before CUDA 13.
class made_up_cubin {
 public:
  explicit made_up_cubin(std::uint32_t architecture = 80) : architecture_(architecture) {}

  made_up_cubin& add(const made_up_kernel& kernel) {
    const std::uint32_t number = static_cast<std::uint32_t>(symbols_.size() / sizeof(Elf64_Sym));
    Elf64_Sym symbol{};
    symbol.st_name = static_cast<Elf64_Word>(symbol_names_.size());
    symbol.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
    symbol.st_other = 0x10;  // it is a kernel, and no function that kernels call
    put(symbols_, symbol);
    symbol_names_ += kernel.symbol + '\0';
    put(info_, attribute(0x2f, {number, kernel.registers}));
    put(info_, attribute(0x11, {number, kernel.stack}));
    std::string own;
    for (std::size_t at = kernel.parameters.size(); at-- > 0;) {
      put(own,
          std::array<std::uint32_t, 4>{0x000c1704, 0, static_cast<std::uint32_t>(at), kernel.parameters[at] << 18U});
    }
    add_section(".text." + kernel.symbol, SHT_PROGBITS, "code");
    add_section(".nv.info." + kernel.symbol, SHT_PROGBITS, own);
    if (kernel.shared != 0) {
      add_section(".nv.shared." + kernel.symbol, SHT_NOBITS, "", kernel.shared);
    }
    return *this;
  }

  [[nodiscard]] std::string text() const {
    made_up_cubin whole = *this;
    whole.add_section(".nv.info", SHT_PROGBITS, info_);
    whole.add_section(".strtab", SHT_STRTAB, symbol_names_);
    whole.add_section(".symtab", SHT_SYMTAB, symbols_);
    whole.sections_.back().sh_link = static_cast<Elf64_Word>(whole.sections_.size() - 2);
    whole.add_section(".shstrtab", SHT_STRTAB, whole.names_ + ".shstrtab" + '\0');
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_machine = 190;
    header.e_flags = architecture_;
    header.e_shoff = sizeof header + whole.contents_.size();
    header.e_shentsize = sizeof(Elf64_Shdr);
    header.e_shnum = static_cast<Elf64_Half>(whole.sections_.size());
    header.e_shstrndx = static_cast<Elf64_Half>(whole.sections_.size() - 1);
    std::string file;
    put(file, header);
    file += whole.contents_;
    for (const Elf64_Shdr& each : whole.sections_) {
      put(file, each);
    }
    return file;
  }

 private:
  template <class Part>
  static void put(std::string& to, const Part& part) {
    to.append(reinterpret_cast<const char*>(&part), sizeof part);
  }
  static std::array<std::uint32_t, 3> attribute(std::uint32_t name, std::array<std::uint32_t, 2> values) {
    return {0x00080004 | name << 8U, values[0], values[1]};
  }
  void add_section(const std::string& name, Elf64_Word type, const std::string& data, std::size_t bytes = 0) {
    Elf64_Shdr section{};
    section.sh_name = static_cast<Elf64_Word>(names_.size());
    section.sh_type = type;
    section.sh_offset = sizeof(Elf64_Ehdr) + contents_.size();
    section.sh_size = bytes != 0 ? bytes : data.size();
    sections_.push_back(section);
    names_ += name + '\0';
    contents_ += data;
  }

  std::uint32_t architecture_;
  std::string info_;
  std::string symbols_;
  std::string symbol_names_;
  std::string names_;
  std::string contents_;
  std::vector<Elf64_Shdr> sections_;
};

}  // namespace penstock::testing

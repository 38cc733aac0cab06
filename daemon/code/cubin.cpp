#include <algorithm>
#include <cstring>
#include <map>
#include <string>

#include <elf.h>

#include "daemon/code/compiler.hpp"

namespace penstock {
namespace {

constexpr Elf64_Half machine_cuda = 190;
constexpr std::string_view code_prefix = ".text.";
constexpr std::string_view info_prefix = ".nv.info.";
constexpr std::string_view shared_prefix = ".nv.shared.";
constexpr std::size_t most_sections = 65536;
constexpr unsigned char symbol_is_entry = 0x10;  // in st_other

[[noreturn]] void refuse() {
  throw code_error("it is not a cubin: an ELF file of CUDA machine code");
}

/// Part of a file, copied, as nothing in it is aligned.
template <class Part>
Part part_at(std::string_view file, std::size_t offset) {
  Part part;
  if (offset > file.size() || file.size() - offset < sizeof part) {
    refuse();
  }
  std::memcpy(&part, file.data() + offset, sizeof part);
  return part;
}

std::string_view text_at(std::string_view file, std::size_t offset) {
  if (offset >= file.size()) {
    refuse();
  }
  const std::string_view rest = file.substr(offset);
  const std::size_t end = rest.find('\0');
  if (end == std::string_view::npos) {
    refuse();
  }
  return rest.substr(0, end);
}

Elf64_Ehdr header_of(std::string_view file) {
  const auto header = part_at<Elf64_Ehdr>(file, 0);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_machine != machine_cuda || header.e_shentsize != sizeof(Elf64_Shdr)) {
    refuse();
  }
  return header;
}

/// 90 for sm_90; 0 where it does not say. The lowest byte of the flags, and in CUDA 13's format the second.
std::uint32_t architecture_number(const Elf64_Ehdr& header) noexcept {
  constexpr unsigned char newer_format = 8;
  return (header.e_ident[EI_ABIVERSION] >= newer_format ? header.e_flags >> 8U : header.e_flags) & 0xffU;
}

/// A value of a function from a section of attributes: each is a format, a name, and two bytes or a size and bytes.
template <class Visit>
void each_attribute(std::string_view info, const Visit& visit) {
  constexpr std::uint8_t has_value = 4;
  for (std::size_t at = 0; at + 4 <= info.size();) {
    const auto format = part_at<std::uint8_t>(info, at);
    const auto name = part_at<std::uint8_t>(info, at + 1);
    const auto size = part_at<std::uint16_t>(info, at + 2);
    at += 4;
    if (format == has_value) {
      if (size > info.size() - at) {
        refuse();
      }
      visit(name, info.substr(at, size));
      at += size;
    }
  }
}

/// Bytes of each parameter of a kernel, from its section of attributes.
std::vector<std::size_t> parameters_of(std::string_view info) {
  constexpr std::uint8_t parameter = 0x17;  // index, ordinal, offset, then flags with the size from bit 18 on
  std::vector<std::size_t> sizes;
  each_attribute(info, [&](std::uint8_t attribute, std::string_view value) {
    if (attribute == parameter && value.size() == 12) {
      const auto ordinal = part_at<std::uint16_t>(value, 4);
      sizes.resize(std::max<std::size_t>(sizes.size(), ordinal + std::size_t{1}));
      sizes[ordinal] = part_at<std::uint32_t>(value, 8) >> 18U;
    }
  });
  return sizes;
}

}  // namespace

std::vector<kernel_usage> usage_of(std::string_view cubin) {
  const Elf64_Ehdr header = header_of(cubin);
  const auto section = [&](std::size_t index) {
    return part_at<Elf64_Shdr>(cubin, header.e_shoff + index * sizeof(Elf64_Shdr));
  };
  const Elf64_Shdr names = section(header.e_shstrndx);
  const auto bytes_of = [&](const Elf64_Shdr& each) {
    if (each.sh_offset > cubin.size() || cubin.size() - each.sh_offset < each.sh_size) {
      refuse();
    }
    return cubin.substr(each.sh_offset, each.sh_size);
  };
  std::vector<kernel_usage> kernels;
  std::map<std::string, std::size_t, std::less<>> shared;
  std::map<std::uint32_t, std::uint32_t> stacks;  // by symbol
  std::map<std::uint32_t, std::uint32_t> registers;
  std::map<std::string, std::uint32_t, std::less<>> symbols;
  std::map<std::string, std::vector<std::size_t>, std::less<>> entries;  // parameters by kernel
  for (std::size_t index = 0; index < header.e_shnum && index < most_sections; ++index) {
    const Elf64_Shdr each = section(index);
    const std::string_view name = text_at(cubin, names.sh_offset + each.sh_name);
    if (name.starts_with(code_prefix)) {
      kernel_usage kernel;
      kernel.symbol = name.substr(code_prefix.size());
      kernels.push_back(kernel);
    } else if (name.starts_with(shared_prefix)) {
      shared[std::string(name.substr(shared_prefix.size()))] = each.sh_size;
    } else if (name.starts_with(info_prefix)) {
      entries[std::string(name.substr(info_prefix.size()))] = parameters_of(bytes_of(each));
    } else if (name == ".nv.info") {
      constexpr std::uint8_t frame_size = 0x11;
      constexpr std::uint8_t register_count = 0x2f;
      each_attribute(bytes_of(each), [&](std::uint8_t attribute, std::string_view value) {
        if ((attribute == frame_size || attribute == register_count) && value.size() == 8) {
          auto& column = attribute == frame_size ? stacks : registers;
          column[part_at<std::uint32_t>(value, 0)] = part_at<std::uint32_t>(value, 4);
        }
      });
    } else if (each.sh_type == SHT_SYMTAB && each.sh_link < header.e_shnum) {
      const Elf64_Shdr texts = section(each.sh_link);
      for (std::size_t symbol = 0; symbol < each.sh_size / sizeof(Elf64_Sym); ++symbol) {
        const auto found = part_at<Elf64_Sym>(cubin, each.sh_offset + symbol * sizeof(Elf64_Sym));
        // Functions that kernels call are no entries.
        if (ELF64_ST_TYPE(found.st_info) == STT_FUNC && (found.st_other & symbol_is_entry) != 0) {
          symbols[std::string(text_at(cubin, texts.sh_offset + found.st_name))] = static_cast<std::uint32_t>(symbol);
        }
      }
    }
  }
  // From Hopper on the system takes the first kilobyte of a block's shared memory.
  const std::size_t reserved = architecture_number(header) >= 90 ? 1024 : 0;
  if (!symbols.empty()) {
    std::erase_if(kernels, [&](const kernel_usage& each) { return !symbols.contains(each.symbol); });
  }
  for (kernel_usage& each : kernels) {
    each.parameters = entries[each.symbol];
    each.shared = shared.contains(each.symbol) ? shared[each.symbol] : 0;
    each.shared -= std::min(each.shared, reserved);
    const std::uint32_t symbol = symbols[each.symbol];
    each.stack = stacks[symbol];
    each.registers = static_cast<int>(registers[symbol]);
  }
  return kernels;
}

std::string architecture_of(std::string_view cubin) {
  const std::uint32_t number = architecture_number(header_of(cubin));
  return number == 0 ? "" : "sm_" + std::to_string(number);
}

}  // namespace penstock

#include "kernels/shared_object.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <system_error>
#include <type_traits>
#include <utility>

#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernels/thread_variables.hpp"

namespace penstock {
namespace {

constexpr std::string_view elf_magic(
    "\x7f"
    "ELF");
#if defined(__x86_64__)
constexpr std::uint16_t own_machine = EM_X86_64;
#elif defined(__aarch64__)
constexpr std::uint16_t own_machine = EM_AARCH64;
#else
constexpr std::uint16_t own_machine = EM_NONE;
#endif
constexpr unsigned char unique_binding = 10;  // STB_GNU_UNIQUE
/// What at_thread_exit_function is renamed to in images, so that it is not found in libstdc++.
constexpr std::string_view own_at_thread_exit = "__own_thread_atexit";
static_assert(own_at_thread_exit.size() == at_thread_exit_function.size());

library_error cut_off() {
  return library_error("is cut off: its end is missing");
}

/// Parts of an ELF file, each looked at only where the file has it.
class elf_file {
 public:
  explicit elf_file(std::string_view bytes) : bytes_(bytes) {
    if (!bytes.starts_with(elf_magic)) {
      throw library_error("is not a shared library");
    }
    header_ = at<Elf64_Ehdr>(0);
    if (header_.e_ident[EI_CLASS] != ELFCLASS64 || header_.e_type != ET_DYN ||
        (header_.e_phnum != 0 && header_.e_phentsize != sizeof(Elf64_Phdr))) {
      throw library_error("is not a shared library of this machine");
    }
    if (own_machine != EM_NONE && header_.e_machine != own_machine) {
      throw library_error("is built for another machine than this one");
    }
    // Loaded without its end, it would be read beyond it.
    for (std::size_t part = 0; part < header_.e_phnum; ++part) {
      const auto segment = at<Elf64_Phdr>(header_.e_phoff + part * sizeof(Elf64_Phdr));
      static_cast<void>(piece(segment.p_offset, segment.p_filesz));
    }
  }

  template <class Record>
  [[nodiscard]] Record at(std::uint64_t offset) const {
    static_assert(std::is_trivially_copyable_v<Record>);
    Record record{};
    std::memcpy(&record, piece(offset, sizeof record).data(), sizeof record);
    return record;
  }
  [[nodiscard]] std::string_view piece(std::uint64_t offset, std::uint64_t length) const {
    if (offset > bytes_.size() || length > bytes_.size() - offset) {
      throw cut_off();
    }
    return bytes_.substr(offset, length);
  }
  /// Of a table of strings.
  [[nodiscard]] static std::string text(std::string_view strings, std::uint64_t offset) {
    if (offset >= strings.size()) {
      throw cut_off();
    }
    const std::string_view from = strings.substr(offset);
    return std::string(from.substr(0, from.find('\0')));
  }
  /// The section of this type, if it has one.
  [[nodiscard]] std::optional<Elf64_Shdr> section(std::uint32_t type) const {
    for (std::size_t each = 0; each < header_.e_shnum; ++each) {
      const Elf64_Shdr found = numbered(each);
      if (found.sh_type == type) {
        return found;
      }
    }
    return std::nullopt;
  }
  [[nodiscard]] std::string_view contents(const Elf64_Shdr& section) const {
    return piece(section.sh_offset, section.sh_size);
  }
  /// The strings of a section's records.
  [[nodiscard]] std::string_view strings(const Elf64_Shdr& section) const {
    if (section.sh_link >= header_.e_shnum) {
      throw cut_off();
    }
    return contents(numbered(section.sh_link));
  }

 private:
  [[nodiscard]] Elf64_Shdr numbered(std::size_t index) const {
    return at<Elf64_Shdr>(header_.e_shoff + index * sizeof(Elf64_Shdr));
  }

  std::string_view bytes_;
  Elf64_Ehdr header_{};
};

std::string reason() {
  return std::generic_category().message(errno);
}

/// A file without a name that holds these bytes.
file_descriptor memory_file(std::string_view bytes) {
  file_descriptor file(::memfd_create("penstock-library", MFD_CLOEXEC));
  if (!file || !write_all(file.number(), bytes)) {
    throw library_error("no memory to load it from: " + reason());
  }
  return file;
}

/// A name of the descriptor that no library was loaded by: the loader goes by names, and descriptors' numbers come
/// back. Each "/." and "/" stands for a bit of a number that is used once.
std::string unique_name(const file_descriptor& file) {
  static std::atomic<std::size_t> used{0};
  std::string name = "/proc/self/fd";
  for (std::size_t number = ++used; number != 0; number >>= 1U) {
    name += (number & 1U) != 0 ? "/." : "/";
  }
  return name + "/" + std::to_string(file.number());
}

void* open(const std::string& name, int flags, const std::string& shown) {
  void* const handle = ::dlopen(name.c_str(), flags);
  if (handle == nullptr) {
    const char* const given = ::dlerror();
    std::string why = given == nullptr ? "unknown" : given;
    for (const std::string& each : {name, shown}) {
      if (why.starts_with(each + ": ")) {
        why.erase(0, each.size() + 2);
      }
    }
    throw library_error("can't be loaded: " + why);
  }
  return handle;
}

/// A library that has these functions and needs `library`, and nothing else: one segment with the tables of its
/// symbols.
std::string carrier_of(std::span<const given_function> given, const std::string& library) {
  std::string strings(1, '\0');
  const auto add = [&strings](const std::string& text) {
    const auto offset = static_cast<std::uint32_t>(strings.size());
    strings += text;
    strings += '\0';
    return offset;
  };
  std::vector<Elf64_Sym> symbols(1);
  for (const given_function& each : given) {
    Elf64_Sym& made = symbols.emplace_back();
    made.st_name = add(each.name);
    made.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
    made.st_shndx = SHN_ABS;
    made.st_value = reinterpret_cast<std::uintptr_t>(each.address);
  }
  const std::uint64_t needed = add(library);
  // One chain of all symbols.
  std::vector<std::uint32_t> hash{1, static_cast<std::uint32_t>(symbols.size()), symbols.size() > 1 ? 1U : 0U};
  for (std::uint32_t each = 0; each < symbols.size(); ++each) {
    hash.push_back(each == 0 || each + 1 == symbols.size() ? 0 : each + 1);
  }
  std::array<Elf64_Dyn, 7> dynamic{};
  constexpr std::size_t segments = 3;
  const std::uint64_t symbols_at = sizeof(Elf64_Ehdr) + segments * sizeof(Elf64_Phdr);
  const std::uint64_t dynamic_at = symbols_at + symbols.size() * sizeof(Elf64_Sym);
  const std::uint64_t hash_at = dynamic_at + sizeof dynamic;
  const std::uint64_t strings_at = hash_at + hash.size() * sizeof(std::uint32_t);
  const std::uint64_t size = strings_at + strings.size();
  std::size_t entries = 0;
  for (const auto& [tag, value] :
       std::initializer_list<std::pair<std::int64_t, std::uint64_t>>{{DT_NEEDED, needed},
                                                                     {DT_HASH, hash_at},
                                                                     {DT_STRTAB, strings_at},
                                                                     {DT_SYMTAB, symbols_at},
                                                                     {DT_STRSZ, strings.size()},
                                                                     {DT_SYMENT, sizeof(Elf64_Sym)}}) {
    dynamic[entries].d_tag = tag;
    dynamic[entries++].d_un.d_val = value;
  }
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, elf_magic.data(), elf_magic.size());
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_DYN;
  header.e_machine = own_machine;
  header.e_version = EV_CURRENT;
  header.e_phoff = sizeof header;
  header.e_ehsize = sizeof header;
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = segments;
  constexpr std::uint64_t page = 65536;  // of every machine
  std::array<Elf64_Phdr, segments> parts{};
  // The loader writes addresses into the table that it finds all others by.
  parts[0] = {PT_LOAD, PF_R | PF_W, 0, 0, 0, size, size, page};
  parts[1] = {PT_DYNAMIC, PF_R | PF_W, dynamic_at, dynamic_at, dynamic_at, sizeof dynamic, sizeof dynamic, 8};
  // Without it stacks would become executable.
  parts[2] = {PT_GNU_STACK, PF_R | PF_W, 0, 0, 0, 0, 0, 16};
  std::string made;
  const auto append = [&made](const void* from, std::size_t bytes) {
    made.append(static_cast<const char*>(from), bytes);
  };
  append(&header, sizeof header);
  append(parts.data(), sizeof parts);
  append(symbols.data(), symbols.size() * sizeof(Elf64_Sym));
  append(dynamic.data(), sizeof dynamic);
  append(hash.data(), hash.size() * sizeof(std::uint32_t));
  return made + strings;
}

}  // namespace

library_image::library_image(std::string_view bytes, library_life life) {
  const elf_file file(bytes);
  if (const std::optional<Elf64_Shdr> dynamic = file.section(SHT_DYNAMIC)) {
    const std::string_view strings = file.strings(*dynamic);
    for (std::uint64_t at = 0; at + sizeof(Elf64_Dyn) <= dynamic->sh_size; at += sizeof(Elf64_Dyn)) {
      const auto entry = file.at<Elf64_Dyn>(dynamic->sh_offset + at);
      if (entry.d_tag == DT_NEEDED) {
        needed_.push_back(elf_file::text(strings, entry.d_un.d_val));
      }
    }
  }
  const std::optional<Elf64_Shdr> symbols = file.section(SHT_DYNSYM);
  const std::optional<Elf64_Shdr> versions = file.section(SHT_GNU_versym);
  struct change {
    std::uint64_t at;
    std::string bytes;
  };
  std::vector<change> changes;
  // GCC makes static variables of inline functions "unique" in the process. Two libraries of different versions would
  // share them, and neither could ever be unloaded.
  const auto unshare = [&](std::uint64_t at, const Elf64_Sym& symbol) {
    const auto info = static_cast<char>(ELF64_ST_INFO(STB_GLOBAL, ELF64_ST_TYPE(symbol.st_info)));
    changes.push_back({at + offsetof(Elf64_Sym, st_info), std::string(1, info)});
  };
  const auto rename = [&](std::uint64_t number, const Elf64_Sym& symbol) {
    const auto name = static_cast<std::uint64_t>(file.strings(*symbols).data() - bytes.data()) + symbol.st_name;
    changes.push_back({name, std::string(own_at_thread_exit)});
    if (versions) {
      const std::uint16_t none = VER_NDX_GLOBAL;
      std::string text(sizeof none, '\0');
      std::memcpy(text.data(), &none, sizeof none);
      changes.push_back({versions->sh_offset + number * sizeof none, text});
    }
  };
  for (std::uint64_t at = 1; symbols && (at + 1) * sizeof(Elf64_Sym) <= symbols->sh_size; ++at) {
    const auto symbol = file.at<Elf64_Sym>(symbols->sh_offset + at * sizeof(Elf64_Sym));
    const unsigned char binding = ELF64_ST_BIND(symbol.st_info);
    const bool has_version =
        versions && (file.at<std::uint16_t>(versions->sh_offset + at * sizeof(std::uint16_t)) & 0x7fffU) > 1;
    if (binding == STB_LOCAL) {
      continue;
    }
    std::string name = elf_file::text(file.strings(*symbols), symbol.st_name);
    if (symbol.st_shndx != SHN_UNDEF) {
      defined_.push_back(std::move(name));
    } else if (life == library_life::of_object && name == at_thread_exit_function) {
      rename(at, symbol);
    } else if (binding != STB_WEAK && !has_version) {
      wanted_.push_back(std::move(name));
    }
    if (symbol.st_shndx != SHN_UNDEF && binding == unique_binding) {
      unshare(symbols->sh_offset + at * sizeof(Elf64_Sym), symbol);
    }
  }
  std::sort(defined_.begin(), defined_.end());
  std::sort(wanted_.begin(), wanted_.end());
  file_ = memory_file(bytes);
  for (const change& each : changes) {
    if (::pwrite(file_.number(), each.bytes.data(), each.bytes.size(), static_cast<off_t>(each.at)) !=
        std::ssize(each.bytes)) {
      throw library_error("no memory to load it from: " + reason());
    }
  }
}

bool library_image::defines(std::string_view name) const noexcept {
  return std::binary_search(defined_.begin(), defined_.end(), name, std::less<>());
}

shared_object::shared_object(const library_image& image, std::span<const given_function> given) {
  const std::string library = unique_name(image.file());
  std::vector<given_function> all(given.begin(), given.end());
  all.push_back({std::string(own_at_thread_exit), reinterpret_cast<const void*>(&destroy_at_thread_exit)});
  const file_descriptor carrier = memory_file(carrier_of(all, library));
  handle_ = open(unique_name(carrier), RTLD_NOW | RTLD_LOCAL, library);
}

shared_object::~shared_object() {
  ::dlclose(handle_);
}

void* shared_object::find(const char* name) const noexcept {
  return ::dlsym(handle_, name);
}

void* load_for_good(const library_image& image, int flags) {
  const std::string name = unique_name(image.file());
  return open(name, flags | RTLD_NODELETE, name);
}

}  // namespace penstock

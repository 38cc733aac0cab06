#include "kernels/plugin_library.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <system_error>

#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/descriptors.hpp"
#include "base/sha256.hpp"

namespace penstock {
namespace {

constexpr std::string_view elf_magic(
    "\x7f"
    "ELF");
constexpr std::uint32_t most_operators = 1024;

std::string reason() {
  return std::generic_category().message(errno);
}

/// A file without a name that holds these bytes.
file_descriptor memory_file(std::string_view bytes) {
  file_descriptor file(::memfd_create("penstock-plugin", MFD_CLOEXEC));
  if (!file) {
    throw plugin_error("no memory to load it from: " + reason());
  }
  if (!write_all(file.number(), bytes)) {
    throw plugin_error("no memory to load it from: " + reason());
  }
  return file;
}

/// A name of the descriptor that no library was loaded by: the loader goes by names, and descriptors' numbers come
/// back. Each "/." and "/" stands for a bit of `number`.
std::string unique_name(const file_descriptor& file, std::size_t number) {
  std::string name = "/proc/self/fd";
  for (; number != 0; number >>= 1U) {
    name += (number & 1U) != 0 ? "/." : "/";
  }
  return name + "/" + std::to_string(file.number());
}

bool is_name(const char* name) {
  constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
  const std::string_view text = name == nullptr ? "" : name;
  return !text.empty() && text.size() <= 64 && text.find_first_not_of(letters) == text.npos;
}

void check_operator(const ps_operator& given, const std::vector<const ps_operator*>& others) {
  if (given.abi != PENSTOCK_PLUGIN_ABI) {
    throw plugin_error("is built for ABI " + std::to_string(given.abi) + " of plug-ins; this daemon has ABI " +
                       std::to_string(PENSTOCK_PLUGIN_ABI) + ": build it with this version's penstock/plugin.h");
  }
  if (given.size < sizeof(ps_operator)) {
    throw plugin_error("has an operator of " + std::to_string(given.size) + " bytes, where ABI 1 has " +
                       std::to_string(sizeof(ps_operator)));
  }
  if (!is_name(given.name)) {
    throw plugin_error("has an operator without a name of 1 to 64 of A-Z a-z 0-9 _ . -");
  }
  if (given.infer == nullptr || given.make == nullptr || given.run == nullptr || given.drop == nullptr) {
    throw plugin_error("has an operator '" + std::string(given.name) + "' that lacks infer, make, run or drop");
  }
  if (std::any_of(others.begin(), others.end(),
                  [&](const ps_operator* other) { return std::string_view(other->name) == given.name; })) {
    throw plugin_error("has two operators '" + std::string(given.name) + "'");
  }
}

/// Throws plugin_error for a file that lacks its end: loaded, it would be read beyond it.
void check_whole(std::string_view bytes) {
  const auto cut_off = [] { return plugin_error("is cut off: its end is missing"); };
  Elf64_Ehdr header{};
  if (bytes.size() < sizeof header) {
    throw cut_off();
  }
  std::memcpy(&header, bytes.data(), sizeof header);
  const std::uint64_t size = bytes.size();
  const auto within = [size](std::uint64_t offset, std::uint64_t length) {
    return offset <= size && length <= size - offset;
  };
  if (header.e_phnum != 0 && header.e_phentsize != sizeof(Elf64_Phdr)) {
    throw plugin_error("is not a shared library of this machine");
  }
  if (!within(header.e_phoff, std::uint64_t{header.e_phnum} * sizeof(Elf64_Phdr))) {
    throw cut_off();
  }
  for (std::size_t part = 0; part < header.e_phnum; ++part) {
    Elf64_Phdr segment{};
    std::memcpy(&segment, bytes.data() + header.e_phoff + part * sizeof segment, sizeof segment);
    if (!within(segment.p_offset, segment.p_filesz)) {
      throw cut_off();
    }
  }
}

plugin_library open_library(std::string_view bytes, std::size_t number) {
  if (!bytes.starts_with(elf_magic)) {
    throw plugin_error("is not a shared library");
  }
  check_whole(bytes);
  const file_descriptor file = memory_file(bytes);
  const std::string name = unique_name(file, number);
  // Never unloaded: names of errors are its own, and so may be threads and what runs at the process's end.
  void* const handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    const char* const given = ::dlerror();
    std::string why = given == nullptr ? "unknown" : given;
    if (why.starts_with(name + ": ")) {
      why.erase(0, name.size() + 2);
    }
    throw plugin_error("can't be loaded: " + why);
  }
  void* const symbol = ::dlsym(handle, "penstock_plugin_v1");
  if (symbol == nullptr) {
    throw plugin_error("has no function penstock_plugin_v1: it is not a plug-in, or does not export it");
  }
  const auto list = reinterpret_cast<const ps_operator* (*)(std::uint32_t)>(symbol);
  plugin_library made;
  for (const ps_operator* each = list(0); each != nullptr;
       each = list(static_cast<std::uint32_t>(made.operators.size()))) {
    check_operator(*each, made.operators);
    if (made.operators.size() == most_operators) {
      throw plugin_error("has more than " + std::to_string(most_operators) +
                         " operators: penstock_plugin_v1 must give NULL beyond the last");
    }
    made.operators.push_back(each);
  }
  if (made.operators.empty()) {
    throw plugin_error("has no operator");
  }
  return made;
}

}  // namespace

std::shared_ptr<const plugin_library> load_plugin(std::string_view bytes) {
  // What is loaded is the process's, and so is the list of it.
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<const plugin_library>> loaded;
  static std::size_t count = 0;
  const std::string key = sha256_of(bytes);
  const std::lock_guard lock(mutex);
  std::shared_ptr<const plugin_library>& library = loaded[key];
  if (library == nullptr) {
    try {
      plugin_library opened = open_library(bytes, ++count);
      opened.sha256 = key;
      library = std::make_shared<const plugin_library>(std::move(opened));
    } catch (...) {
      loaded.erase(key);
      throw;
    }
  }
  return library;
}

std::string digest_of(const code_file& file) {
  sha256 digest;
  digest.add_sized(file.text);
  digest.add_sized(file.headers);
  digest.add_sized(file.library == nullptr ? "" : file.library->sha256);
  return digest.digits();
}

}  // namespace penstock

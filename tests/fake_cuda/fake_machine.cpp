#include "tests/fake_cuda/fake_machine.hpp"

#include <cstdlib>
#include <cstring>

#include <elf.h>

namespace penstock::testing {
namespace {

constexpr Elf64_Half machine_cuda = 190;
constexpr std::string_view code_prefix = ".text.";
constexpr float faulting = 666;
constexpr float endless = 777;

template <class Part>
Part part_at(const char* file, std::size_t offset) {
  Part part;
  std::memcpy(&part, file + offset, sizeof part);
  return part;
}

template <class Value>
Value argument(void* const* arguments, std::size_t index) {
  Value value;
  std::memcpy(&value, arguments[index], sizeof value);
  return value;
}

}  // namespace

std::optional<loaded_library> load_library(const void* file) {
  const char* const bytes = static_cast<const char*>(file);
  const auto header = part_at<Elf64_Ehdr>(bytes, 0);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_machine != machine_cuda) {
    return std::nullopt;
  }
  const auto section = [&](std::size_t index) {
    return part_at<Elf64_Shdr>(bytes, header.e_shoff + index * sizeof(Elf64_Shdr));
  };
  const std::size_t names = section(header.e_shstrndx).sh_offset;
  loaded_library made;
  for (std::size_t index = 0; index < header.e_shnum; ++index) {
    const Elf64_Shdr each = section(index);
    const std::string_view name(bytes + names + each.sh_name);
    if (name.starts_with(code_prefix)) {
      made.kernels[std::string(name.substr(code_prefix.size()))].code.assign(bytes + each.sh_offset, each.sh_size);
    }
  }
  return made;
}

kernel_end run_kernel(const loaded_kernel& kernel, void* const* arguments) {
  constexpr std::string_view scale = "scale ";
  if (!kernel.code.starts_with(scale)) {
    return kernel.code.starts_with("never") ? kernel_end::never : kernel_end::faulted;
  }
  const float factor = std::strtof(kernel.code.c_str() + scale.size(), nullptr);
  const auto* const in = argument<const float*>(arguments, 0);
  auto* const out = argument<float*>(arguments, 1);
  const auto count = argument<long long>(arguments, 2) * argument<long long>(arguments, 3);
  for (long long at = 0; at < count; ++at) {
    if (in[at] == faulting || in[at] == endless) {
      return in[at] == faulting ? kernel_end::faulted : kernel_end::never;
    }
    out[at] = factor * in[at];
  }
  return kernel_end::done;
}

}  // namespace penstock::testing

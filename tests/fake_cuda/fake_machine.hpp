#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace penstock::testing {

/// How a kernel of the fake runtime ends.
enum class kernel_end { done, faulted, never };

/// A kernel that was loaded from machine code. Its code is a text, of what it does with its parameters
/// (const float* in, float* out, long long frames, long long n0):
///   scale F   out = F · in; faults where a value is 666, and never ends where one is 777
///   fault     faults
///   never     never ends
struct loaded_kernel {
  std::string code;
};

/// What cudaLibraryLoadData loads: an ELF file, as cubins are, with a section ".text.NAME" for each kernel. The same is
/// written in tests/system/fake_cuda.py.
struct loaded_library {
  std::map<std::string, loaded_kernel, std::less<>> kernels;
};

/// Nothing if it is no such file.
[[nodiscard]] std::optional<loaded_library> load_library(const void* file);

/// A kernel of Penstock's own that is written here once more.
struct host_kernel {
  std::array<std::size_t, 2> sizes;  ///< of its parameters; 0: it has one only
  void (*run)(void* const* arguments);
};

/// nullptr if the function is none of these.
[[nodiscard]] const host_kernel* find_host_kernel(const void* function);

/// Runs it. `arguments` points to each parameter, as of a launch.
[[nodiscard]] kernel_end run_kernel(const loaded_kernel& kernel, void* const* arguments);

}  // namespace penstock::testing

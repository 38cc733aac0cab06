#pragma once

#include <span>
#include <string>

namespace penstock {

/// Where a library is looked for, and what is said where it is missing.
struct runtime_library_search {
  const char* need;                    ///< "an FFT on the GPU needs cuFFT"
  const char* kind;                    ///< "a cuFFT"
  const char* variable;                ///< environment variable that names the file
  std::span<const char* const> names;  ///< files to try where the variable is not set, in this order
  const char* hint;                    ///< what to install
  bool with_toolkit = false;           ///< also in the CUDA toolkit's folders: CUDA_PATH, /usr/local/cuda
};

/// A library that is opened at run time, because a machine may lack it. It stays loaded until the process ends
/// (RTLD_NODELETE): one with CUDA kernels registers itself with the driver, one with threads may still run, and taking
/// either out at an arbitrary moment of the process's end is not safe.
class runtime_library {
 public:
  /// Throws std::runtime_error, which says what is missing and what to install.
  explicit runtime_library(const runtime_library_search& search);

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// Sets `function` to the function of that name. Throws std::runtime_error if there is none.
  template <class Function>
  void find(const char* name, Function& function) const {
    function = reinterpret_cast<Function>(address_of(name));
  }

 private:
  [[nodiscard]] void* address_of(const char* name) const;

  const char* kind_;
  const char* hint_;
  void* handle_ = nullptr;
  std::string path_;
};

}  // namespace penstock

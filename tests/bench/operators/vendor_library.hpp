#pragma once

#include <initializer_list>
#include <stdexcept>

namespace penstock::bench {

/// A library is not on this machine.
struct no_vendor_library : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A shared library of NVIDIA's, found at run time as the kernels find cuFFT (docs/decisions/0002-cufft-at-run-time.md)
/// and kept loaded until the process ends. Immutable.
class vendor_library {
 public:
  /// The file that the environment variable `chosen_by` names, and when it is set no other; else the first of `names`
  /// that is found where the loader looks, in CUDA_PATH or in /usr/local/cuda. Throws no_vendor_library.
  vendor_library(const char* chosen_by, std::initializer_list<const char*> names);

  /// Throws std::runtime_error when it has no such symbol.
  template <class Function>
  void resolve(const char* symbol, Function& function) const {
    function = reinterpret_cast<Function>(address_of(symbol));
  }

 private:
  [[nodiscard]] void* address_of(const char* symbol) const;

  void* library_ = nullptr;
};

}  // namespace penstock::bench

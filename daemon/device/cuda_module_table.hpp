#pragma once

#include <cstdint>
#include <memory>

#include "daemon/device/device.hpp"

namespace penstock {

/// What penstock-cuda.so gives the daemon: the one thing that it exports is a function of this name and type. The
/// layout of the first two members never changes, so that any daemon can tell why any module does not fit.
inline constexpr const char* cuda_module_symbol = "penstock_cuda_module_v1";

/// Raise it with every change to device.hpp, operation.hpp or what they include.
inline constexpr std::uint32_t cuda_module_abi = 10;

/// The priorities that a device's streams can have; a lower number goes first.
struct stream_priority_range {
  int lowest = 0;   ///< of the streams that go last
  int highest = 0;  ///< of those that go first
};

struct cuda_module_table {
  std::uint32_t abi;
  const char* version;  ///< of Penstock; both sides must be of the same
  /// Opens the CUDA device of that number. Throws device_error.
  std::unique_ptr<device> (*open)(int id);
  /// How many CUDA devices this machine has; 0 also where there is no driver.
  int (*count)() noexcept;
  /// Of the CUDA device of that number. Throws device_error.
  stream_priority_range (*priorities)(int id) = nullptr;
};

using cuda_module_function = const cuda_module_table* (*)() noexcept;

}  // namespace penstock

#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "daemon/device/device.hpp"

namespace penstock {

/// The only symbol that penstock-cuda.so exports: a function of type cuda_module_function.
inline constexpr const char* cuda_module_symbol = "penstock_cuda_module_v1";

/// Raise it with every change to device.hpp, operation.hpp or what they include.
inline constexpr std::uint32_t cuda_module_abi = 11;

/// The priorities that a device's streams can have; a lower number goes first.
struct stream_priority_range {
  int lowest = 0;   ///< of the streams that go last
  int highest = 0;  ///< of those that go first
};

/// What the module gives the daemon. The layout of the first two members never changes, so that any daemon can tell why
/// a module does not fit.
struct cuda_module_table {
  std::uint32_t abi;
  const char* version;  ///< of Penstock; both sides must be of the same
  /// Opens the CUDA device of that number. Throws device_error.
  std::unique_ptr<device> (*open)(int id);
  /// How many CUDA devices this machine has; 0 also where there is no driver.
  int (*count)() noexcept;
  /// The stream priorities of the CUDA device of that number. Throws device_error.
  stream_priority_range (*priorities)(int id) = nullptr;
};

using cuda_module_function = const cuda_module_table* (*)() noexcept;

/// Loads penstock-cuda.so, which is never unloaded: devices and errors that it made have their code there. Throws
/// device_error, which says where it looked and what to do.
[[nodiscard]] const cuda_module_table& load_cuda_module();

/// The priorities of that CUDA device. Throws device_error.
[[nodiscard]] stream_priority_range cuda_priorities(int id);

/// Where it looks, in this order: PENSTOCK_CUDA_MODULE alone if that is set, else beside the executable, in
/// where `cmake --install` puts it, in ../lib/penstock, in .. and in ../bin from there.
[[nodiscard]] std::vector<std::filesystem::path> cuda_module_places();

/// Throws device_error unless the module at `path` was built for this daemon.
void require_matching_module(const cuda_module_table& module, const std::string& path);

}  // namespace penstock

#pragma once

#include <memory>
#include <string>

#include "daemon/device/device.hpp"

namespace penstock {

/// Which backend the configuration asks for. `automatic` takes CUDA when it works, else the host.
enum class backend_choice { automatic, cuda, host };

struct device_settings {
  backend_choice backend = backend_choice::automatic;
  int id = 0;
  /// Worker threads of the host backend; 0 takes the number of processors.
  int host_threads = 0;
};

struct opened_device {
  std::unique_ptr<penstock::device> device;
  /// One sentence for the log: which backend was taken, and why.
  std::string reason;
};

/// Opens the device that the settings ask for. There is no silent fallback: `cuda` never takes the host.
/// Throws device_error with what is missing and what to do.
[[nodiscard]] opened_device open_device(const device_settings& settings);

/// The host backend: streams are in-order queues that `threads` worker threads drain.
[[nodiscard]] std::unique_ptr<device> open_host_device(int threads);

/// Loads the CUDA module (PENSTOCK_CUDA_MODULE, else `penstock-cuda.so` beside the executable, else in
/// ../lib/penstock) and opens the device. Throws device_error.
[[nodiscard]] std::unique_ptr<device> open_cuda_device(int id);

}  // namespace penstock

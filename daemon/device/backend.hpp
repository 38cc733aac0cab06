#pragma once

#include <memory>
#include <string>
#include <vector>

#include "daemon/device/device.hpp"

namespace penstock {

/// Which backend the configuration asks for. `automatic` takes CUDA when it works, else the host.
enum class backend_choice { automatic, cuda, host };

struct device_settings {
  backend_choice backend = backend_choice::automatic;
  std::vector<int> ids{0};    ///< the devices to serve on, each once
  bool every_device = false;  ///< all that there are, instead of `ids`
  int shards = 1;             ///< on each device
  /// Worker threads of the host backend; 0 takes the number of processors.
  int host_threads = 0;
};

struct opened_device {
  std::unique_ptr<penstock::device> device;
  /// One sentence for the log: which backend was taken, and why.
  std::string reason;
};

/// Opens the first device that the settings ask for. There is no silent fallback: `cuda` never takes the host.
/// Throws device_error with what is missing and what to do.
[[nodiscard]] opened_device open_device(const device_settings& settings);

/// Opens every device that the settings ask for, each once; the host backend is always one. The same rules: with
/// `automatic`, once one CUDA device works the others have to.
[[nodiscard]] std::vector<opened_device> open_devices(const device_settings& settings);

/// The host backend: streams are in-order queues that `threads` worker threads drain.
[[nodiscard]] std::unique_ptr<device> open_host_device(int threads);

/// Loads the CUDA module (PENSTOCK_CUDA_MODULE, else `penstock-cuda.so` beside the executable, else in
/// ../lib/penstock) and opens the device. Throws device_error.
[[nodiscard]] std::unique_ptr<device> open_cuda_device(int id);
/// How many CUDA devices there are. Throws device_error when the module can't be loaded.
[[nodiscard]] int count_cuda_devices();

}  // namespace penstock

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

  bool operator==(const device_settings&) const = default;
};

struct opened_device {
  std::unique_ptr<penstock::device> device;
  /// One sentence for the log: which backend was chosen, and why.
  std::string reason;
};

/// Opens the first device that the settings ask for. `cuda` never falls back to the host. Throws device_error, which
/// says what is missing and what to do.
[[nodiscard]] opened_device open_device(const device_settings& settings);

/// False where open_device would give the host: because the settings ask for it, or CUDA has no device here. Opens
/// none.
[[nodiscard]] bool may_take_cuda(const device_settings& settings);

/// Opens every device that the settings ask for, each once; the host backend is one device. The same rules hold. With
/// `automatic`, all CUDA devices have to work if the first does.
[[nodiscard]] std::vector<opened_device> open_devices(const device_settings& settings);

/// The host backend: streams are in-order queues that `threads` worker threads drain.
[[nodiscard]] std::unique_ptr<device> open_host_device(int threads);

/// Loads the CUDA module (PENSTOCK_CUDA_MODULE, else `penstock-cuda.so` beside the executable, else in
/// ../lib/penstock) and opens the device. Throws device_error.
[[nodiscard]] std::unique_ptr<device> open_cuda_device(int id);
/// How many CUDA devices there are. Throws device_error when the module can't be loaded.
[[nodiscard]] int count_cuda_devices();

}  // namespace penstock

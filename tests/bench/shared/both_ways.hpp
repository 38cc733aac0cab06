#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "daemon/device/device.hpp"

namespace penstock::bench {

/// The limit of frames that lie in shared memory: copies of pinned memory in and out at the same time, back to back on
/// a stream each, with nothing around them.
class both_ways {
 public:
  /// On a device of its own. Throws device_error.
  both_ways(const std::string& backend, std::size_t most_bytes);

  /// GB/s each way, of so many copies of so many bytes; they walk through the memory. Throws std::runtime_error when
  /// the device fails.
  [[nodiscard]] double gb_per_second(std::size_t bytes, std::size_t copies);

 private:
  std::unique_ptr<device> device_;
  std::size_t bytes_;
  device_memory pinned_input_, pinned_output_, input_, output_;
  std::unique_ptr<stream> in_, out_;
};

}  // namespace penstock::bench

#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "daemon/device/device.hpp"

namespace penstock {

struct cuda_driver;

/// Makes device memory that other processes can map: CUDA's virtual memory management, of the driver's library, which
/// is opened when there is one. Threads: any.
class cuda_exporter {
 public:
  /// Nothing where the driver or the GPU can't export memory.
  [[nodiscard]] static std::optional<cuda_exporter> open(int device);

  /// 32 hexadecimal digits. One of a MIG instance where the device is one.
  [[nodiscard]] const std::string& uuid() const noexcept { return uuid_; }
  /// Not cleared. Throws device_error.
  [[nodiscard]] std::unique_ptr<exported_memory> make(std::size_t bytes) const;

 private:
  cuda_exporter(const cuda_driver& driver, int device, std::string uuid, std::size_t page)
      : driver_(&driver), device_(device), uuid_(std::move(uuid)), page_(page) {}

  const cuda_driver* driver_;
  int device_;
  std::string uuid_;
  std::size_t page_;
};

}  // namespace penstock

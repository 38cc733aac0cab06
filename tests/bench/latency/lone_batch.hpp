#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "daemon/settings/settings.hpp"

namespace penstock::bench {

/// One batch on the device with nothing around it: copied in, one `affine` kernel, copied out, the host told.
class lone_batch {
 public:
  virtual ~lone_batch() = default;
  /// The median of so many, one after the other, until the host knows of each.
  [[nodiscard]] virtual double p50_us(completion_mode how, std::size_t count) = 0;
};

/// On the device seam's streams, of f32 values. Throws device_error, or std::runtime_error when a batch fails.
[[nodiscard]] std::unique_ptr<lone_batch> open_lone_batch(const std::string& backend, std::size_t bytes);

}  // namespace penstock::bench

#pragma once

#include <chrono>
#include <cstdint>

namespace penstock {

/// What one stream of the wheel was busy with, by the device's clock. Only some batches are timed: `batches` ÷
/// `timed_batches` is what the times have to be multiplied by. Thread: the shard.
struct stream_timing {
  std::chrono::nanoseconds copy_in{};
  std::chrono::nanoseconds compute{};
  std::chrono::nanoseconds copy_out{};
  std::uint64_t timed_batches = 0;
  std::uint64_t batches = 0;  ///< that ran on it, wholly or in part
};

}  // namespace penstock

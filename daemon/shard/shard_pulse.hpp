#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace penstock {

/// The little of a shard that shows whether it lives, light enough to be asked for several times a second.
struct shard_pulse {
  /// How long the device has had a batch without finishing any; 0 while it has none.
  std::chrono::nanoseconds standing_still{};
  std::uint64_t results = 0;    ///< since the start
  std::uint64_t in_flight = 0;  ///< requests
  std::size_t clients = 0;
  std::size_t pipelines = 0;  ///< that are served
};

}  // namespace penstock

#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "daemon/device/device.hpp"

namespace penstock {

/// Timed events around each step of a batch: the copy in, the stages, the copies out, as schedule::steps has them.
/// Whoever times a batch puts one into its slot; the wheel records them. Thread: the shard.
struct batch_clock {
  /// Throws device_error.
  batch_clock(device& from, std::size_t steps) {
    for (std::size_t step = 0; step < steps; ++step) {
      begins.push_back(from.open_event(true));
      ends.push_back(from.open_event(true));
    }
  }

  std::vector<std::unique_ptr<event>> begins;
  std::vector<std::unique_ptr<event>> ends;
};

}  // namespace penstock

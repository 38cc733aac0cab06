#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "daemon/ring/batch.hpp"

namespace penstock {

/// What the policy looks at.
struct batch_fill {
  std::int64_t frames = 0;
  std::int64_t max_frames = 0;
  time_point oldest = never;
  std::chrono::nanoseconds max_delay{};
};

/// Whether an open batch closes now, and why. Pure: the time is passed in.
///
/// A stream that idles takes what there is (natural batching: batches grow while the device is busy, and nothing
/// waits for company on an idle one). A full batch always closes. One whose oldest frame has waited max_delay closes
/// as soon as a stream can take it; with no room it goes on filling, since closing it would not start it sooner.
[[nodiscard]] std::optional<close_reason> decide(const batch_fill& fill, wheel_room room, time_point now) noexcept;

/// When to ask again although nothing has happened: when max_delay runs out. `never` for an empty batch.
[[nodiscard]] time_point next_decision(const batch_fill& fill) noexcept;

}  // namespace penstock

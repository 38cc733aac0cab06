#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "daemon/ring/batch.hpp"

namespace penstock {

/// "idle", "full", ...: as status and timelines say it.
[[nodiscard]] constexpr std::string_view name_of(close_reason reason) noexcept {
  constexpr std::array<std::string_view, close_reasons> names{"idle", "full", "delay", "extent", "drain"};
  return names[static_cast<std::size_t>(reason)];
}

/// One step of a timed batch, by the device's clock, from the batch's launch on.
struct step_time {
  std::chrono::nanoseconds begin{};
  std::chrono::nanoseconds end{};
};

/// One request of a batch, as its client knows it.
struct request_reference {
  std::uint32_t client = 0;   ///< the client's place with the shard
  std::uint32_t session = 0;  ///< its number; 0 = none
  std::uint64_t id = 0;
  std::uint64_t sequence = 0;
  std::array<std::byte, 16> trace_id{};
  time_point received;
  bool ended_early = false;  ///< it had its reply before the batch was done
};

/// What one batch did. The times are the host's.
struct batch_record {
  std::uint64_t number = 0;    ///< from 1, in the order of completion
  std::uint32_t pipeline = 0;  ///< the place of its plan
  std::uint32_t slot = 0;
  close_reason reason = close_reason::idle;
  bool failed = false;
  std::int64_t frames = 0;
  std::uint32_t requests = 0;    ///< of which the first ones are kept
  std::uint32_t references = 0;  ///< kept
  std::uint32_t streams = 0;     ///< kept: one for each lane of the plan
  std::uint32_t steps = 0;       ///< kept; 0 when it was not timed
  time_point oldest;             ///< when its first request was received
  time_point opened;             ///< when the first one came into the slot
  time_point closed;
  time_point launched;
  time_point completed;
  time_point returned = never;  ///< when the slot was free again; `never` while replies are sent from it
};

}  // namespace penstock

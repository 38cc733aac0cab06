#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "daemon/shard/shard_pulse.hpp"

namespace penstock {

/// What one shard showed when it was asked.
struct shard_sign {
  bool ended = false;                ///< it has stopped serving, and answers no more
  std::optional<shard_pulse> pulse;  ///< missing: it did not answer in time
};

/// Decides whether the service manager may be told that the daemon is alive. It is when, for every shard,
///
/// - the shard answers: its thread comes round, so it receives, sends, and lets requests expire. One that has ended, as
///   in a drain, need not;
/// - and its completion path moves: the device has nothing to do, or has finished a batch within hang_timeout and
///   `margin`. Batches that take seconds are healthy as long as the configuration calls them so.
///
/// The margin lets the shard find the hung batch first: it then answers everything in flight FAILED and exits with 75,
/// where the service manager could only kill it. A value without a clock: a pulse says for how long nothing moved.
class watchdog {
 public:
  static constexpr std::chrono::seconds margin{5};

  explicit watchdog(std::chrono::nanoseconds hang_timeout) { set_patience(hang_timeout); }

  void set_patience(std::chrono::nanoseconds hang_timeout) noexcept { patience_ = hang_timeout + margin; }

  /// What keeps the daemon from being called alive; empty when nothing does. `shards` stand by number.
  [[nodiscard]] std::string complaint(const std::vector<shard_sign>& shards) const;

 private:
  std::chrono::nanoseconds patience_;
};

}  // namespace penstock

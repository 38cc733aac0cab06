#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "daemon/admin/http/daemon_state.hpp"
#include "daemon/admin/http/shard_reports.hpp"

namespace penstock {

struct health_check {
  std::string name;
  bool passed = false;
  std::string reason;  ///< what is wrong; where nothing is, what is right
};

/// Whether the daemon is alive: every shard that has not ended comes round. In a drain, shards end.
[[nodiscard]] health_check liveness_of(const shard_answers& shards, daemon_state state);

/// Whether the daemon can be sent work: it has started, is not draining, every shard answers, no device has an error
/// that stays, and no device has had a batch for longer than `patience` without finishing one.
[[nodiscard]] std::vector<health_check> readiness_of(const shard_answers& shards, daemon_state state,
                                                     std::chrono::nanoseconds patience);

[[nodiscard]] bool all_passed(const std::vector<health_check>& checks);
/// {"ready": true, "checks": [{"name": …, "passed": …, "reason": …}]}
[[nodiscard]] std::string print_checks(const std::vector<health_check>& checks);

}  // namespace penstock

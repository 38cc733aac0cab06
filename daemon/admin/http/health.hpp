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

/// What the daemon knows of itself beside its shards' reports: each "" where nothing is wrong.
struct daemon_vitals {
  std::string shortage;  ///< of descriptors
  std::string late;      ///< threads that give no sign
  std::string dead;      ///< those that have given none for so long that the daemon is not alive
};

/// Whether the daemon is alive: every shard that has not ended comes round, and every other thread. In a drain, shards
/// end.
[[nodiscard]] health_check liveness_of(const shard_answers& shards, daemon_state state,
                                       const daemon_vitals& vitals = {});

/// Whether the daemon can be sent work: it has started, is not draining, every shard answers, no device has an error
/// that stays, no device has had a batch for longer than `patience` without finishing one, there are descriptors for
/// new connections, and every other thread gives signs of life.
[[nodiscard]] std::vector<health_check> readiness_of(const shard_answers& shards, daemon_state state,
                                                     std::chrono::nanoseconds patience,
                                                     const daemon_vitals& vitals = {});

[[nodiscard]] bool all_passed(const std::vector<health_check>& checks);
/// {"ready": true, "checks": [{"name": …, "passed": …, "reason": …}]}
[[nodiscard]] std::string print_checks(const std::vector<health_check>& checks);

}  // namespace penstock

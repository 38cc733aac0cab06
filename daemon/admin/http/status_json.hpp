#pragma once

#include <chrono>
#include <string>

#include "daemon/admin/http/daemon_state.hpp"
#include "daemon/admin/http/shard_reports.hpp"

namespace penstock {

/// What is known of the daemon beside what its shards say.
struct daemon_facts {
  daemon_state state = daemon_state::starting;
  std::chrono::system_clock::time_point started;
  std::chrono::nanoseconds uptime{};
};

/// The configuration of the lowest version that a shard serves.
[[nodiscard]] configuration_report configuration_of(const shard_answers& shards);

/// The object that docs/admin-http.md describes.
[[nodiscard]] std::string print_status(const daemon_facts& facts, const shard_answers& shards);

}  // namespace penstock

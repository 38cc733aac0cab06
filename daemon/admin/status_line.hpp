#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/admin/watchdog.hpp"
#include "daemon/request/request.hpp"

namespace penstock {

/// Writes what `systemctl status` shows of the daemon: "serving 12 pipelines: 15 234 results/s, 3 clients, 2 shards".
class status_line {
 public:
  /// The rate counts from `start`.
  explicit status_line(time_point start) : then_(start) {}

  /// The rate is of the time since the last line. A shard that did not answer is written with what it last said.
  [[nodiscard]] std::string write(time_point now, const std::vector<shard_sign>& shards, bool draining);

 private:
  time_point then_;
  std::vector<shard_pulse> known_;  // by shard
};

}  // namespace penstock

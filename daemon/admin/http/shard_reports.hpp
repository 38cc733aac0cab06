#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "daemon/shard/shard_report.hpp"
#include "daemon/timeline/device_clock.hpp"

namespace penstock {

/// What all shards said when they were last asked, by their number; missing where one did not answer.
using shard_answers = std::vector<std::optional<shard_report>>;

/// Asks the shards for their reports on behalf of everybody who wants them: who asks while the shards are being asked,
/// or within `freshness` after they all answered, gets the same answers. So however many clients scrape, a shard writes
/// no more than ten reports a second. Thread: the admin's.
class shard_reports {
 public:
  using consumer = std::function<void(std::shared_ptr<const shard_answers>)>;
  /// Asks all shards, and calls what it is given once.
  using question = std::function<void(std::function<void(shard_answers)>)>;

  static constexpr std::chrono::milliseconds freshness{100};

  shard_reports(question ask_all, time_source now) : ask_all_(std::move(ask_all)), now_(std::move(now)) {}

  /// Calls `done` once, at once or later.
  void ask(consumer done);

 private:
  void take(shard_answers answers);

  question ask_all_;
  time_source now_;
  std::vector<consumer> waiting_;
  std::shared_ptr<const shard_answers> last_;
  time_point last_at_;
};

}  // namespace penstock

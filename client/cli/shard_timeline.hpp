#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <vector>

#include <penstock/client.hpp>

#include "proto/timeline/chrome_trace.hpp"

namespace penstock::cli {

/// What one shard of a daemon remembers of its batches, read page by page. Times are the daemon's clock. Thread: the
/// caller's.
class shard_timeline {
 public:
  /// `timeout` is of each page.
  shard_timeline(std::unique_ptr<client> at, std::chrono::nanoseconds timeout)
      : at_(std::move(at)), timeout_(timeout) {}

  /// Takes in all that there is the first time, and then what has come since; but not what comes meanwhile. Throws
  /// request_error when no answer comes, std::runtime_error when it makes no sense.
  void catch_up(chrome_trace& into);

  [[nodiscard]] std::uint32_t shard() const { return at_->server().shard; }
  /// When the last page was written.
  [[nodiscard]] std::int64_t now_ns() const noexcept { return now_ns_; }
  /// From when on all that was completed until the first `catch_up` was taken in; nothing = from the daemon's start.
  [[nodiscard]] std::optional<std::int64_t> since_ns() const noexcept { return since_ns_; }
  /// Batches that came after the first `catch_up`, and were forgotten before they were read.
  [[nodiscard]] std::uint64_t missed() const noexcept { return missed_; }

 private:
  std::unique_ptr<client> at_;
  std::chrono::nanoseconds timeout_;
  std::uint64_t cursor_ = 0;
  std::int64_t now_ns_ = 0;
  std::optional<std::int64_t> since_ns_;
  std::uint64_t missed_ = 0;
};

/// One of each shard of the daemon that listens at the url. A shard that can't be reached is left out, and `complaints`
/// says so. Throws connect_error when there is no daemon.
[[nodiscard]] std::vector<shard_timeline> timelines_of(client_options daemon, std::chrono::nanoseconds timeout,
                                                       std::ostream& complaints);

}  // namespace penstock::cli

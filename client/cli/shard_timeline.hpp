#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <vector>

#include <penstock/client.hpp>

#include "proto/chrome_trace.hpp"

namespace penstock::cli {

/// Reads the recent batches of one shard, page by page. Times are in the daemon's clock. Not thread-safe.
class shard_timeline {
 public:
  /// `timeout`: per page.
  shard_timeline(std::unique_ptr<client> at, std::chrono::nanoseconds timeout)
      : at_(std::move(at)), timeout_(timeout) {}

  /// Reads all batches on the first call, later those added since the last call; not those added during the call.
  /// Throws request_error without an answer, std::runtime_error for a malformed one.
  void catch_up(chrome_trace& trace);

  [[nodiscard]] std::uint32_t shard() const { return at_->server().shard; }
  /// Time of the last page.
  [[nodiscard]] std::int64_t now_ns() const noexcept { return now_ns_; }
  /// Start of the complete record at the first `catch_up`; nullopt = the daemon's start.
  [[nodiscard]] std::optional<std::int64_t> since_ns() const noexcept { return since_ns_; }
  /// Batches after the first `catch_up` that the daemon dropped before they were read.
  [[nodiscard]] std::uint64_t missed() const noexcept { return missed_; }

 private:
  std::unique_ptr<client> at_;
  std::chrono::nanoseconds timeout_;
  std::uint64_t cursor_ = 0;
  std::int64_t now_ns_ = 0;
  std::optional<std::int64_t> since_ns_;
  std::uint64_t missed_ = 0;
};

/// One timeline for each shard of a daemon. Unreachable shards are omitted and reported in `complaints`. Throws
/// connect_error when there is no daemon.
[[nodiscard]] std::vector<shard_timeline> timelines_of(client_options daemon, std::chrono::nanoseconds timeout,
                                                       std::ostream& complaints);

}  // namespace penstock::cli

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proto/timeline/traced_batch.hpp"

namespace penstock {

/// Batches of a daemon as a timeline in the Chrome trace-event format, which Perfetto and chrome://tracing show.
///
/// A process a shard. In it a track a stream with the steps of the batches that were timed, a track a slot with the
/// life of its batches, and tracks of each pipeline with requests, from each of which an arrow leads to its batch.
/// Times are whole multiples of 125 ns, because what reads the file multiplies fractions of microseconds by 1000 and
/// cuts: neighbours would overlap by a nanosecond.
class chrome_trace {
 public:
  /// Takes in a page of TRACE. Throws std::runtime_error when it is none.
  void add(std::string_view page);

  /// Of the last page: its time by the daemon's clock, how many batches it had, and when the newest was completed.
  struct page_facts {
    std::int64_t now_ns = 0;
    std::size_t batches = 0;
    std::int64_t newest_ns = 0;
  };
  [[nodiscard]] const page_facts& last_page() const noexcept { return last_page_; }

  /// Drops the batches that were completed before this, by the daemon's clock.
  void keep_since(std::int64_t since_ns);
  [[nodiscard]] const std::vector<traced_batch>& batches() const noexcept { return batches_; }

  void write(std::ostream& out) const;

 private:
  std::vector<traced_batch> batches_;
  std::map<std::uint32_t, std::string> devices_;  // by shard
  page_facts last_page_;
};

}  // namespace penstock

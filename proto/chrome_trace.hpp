#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock {

/// A pipeline as a page of TRACE describes it.
struct traced_pipeline {
  struct step {
    std::string name;
    std::uint32_t lane = 0;
  };
  std::string name;
  std::vector<step> steps;
};

/// One batch of a daemon's timeline. Times are nanoseconds of the daemon's clock.
struct traced_batch {
  struct request {
    std::int64_t received = 0;
    std::uint32_t client = 0;
    std::uint64_t id = 0;
    std::uint32_t session = 0;
    std::uint64_t sequence = 0;
    bool ended_early = false;
    std::string trace_id;  ///< hexadecimal; "" = none
  };
  struct step {
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };

  std::uint32_t shard = 0;
  std::uint64_t number = 0;
  std::uint32_t pipeline_id = 0;
  std::shared_ptr<const traced_pipeline> pipeline;
  std::uint32_t slot = 0;
  std::string close_reason;
  std::uint64_t frames = 0;
  std::uint64_t request_count = 0;  ///< of which the first ones are in `requests`
  bool failed = false;
  std::int64_t opened = 0;  ///< each of these is at or after the one before it
  std::int64_t closed = 0;
  std::int64_t launched = 0;
  std::int64_t completed = 0;
  std::int64_t returned = 0;           ///< as completed, where that is not known
  std::vector<std::uint32_t> streams;  ///< by lane
  std::vector<step> steps;             ///< by the pipeline's steps; none when it was not timed
  std::vector<request> requests;
};

/// Batches of a daemon as a timeline in the Chrome trace-event format, which Perfetto and chrome://tracing show.
///
/// Each shard is a process. It has a track for each stream with the steps of timed batches, a track for each slot with
/// its batches, and tracks for each pipeline with requests, from each of which an arrow leads to its batch. Times are
/// multiples of 125 ns: viewers multiply fractions of microseconds by 1000 and truncate, so that others would make
/// neighbours overlap by a nanosecond.
class chrome_trace {
 public:
  /// Adds a page of TRACE. Throws std::runtime_error when it is none.
  void add(std::string_view page);

  /// The last page: its time by the daemon's clock, its number of batches, and when the newest was completed.
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

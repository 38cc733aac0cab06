#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "daemon/pipeline/plan.hpp"
#include "daemon/timeline/recent_batches.hpp"
#include "proto/message.hpp"

namespace penstock {

/// What a TRACE is sent with.
struct timeline_page {
  std::string json;
  std::uint64_t next = 0;  ///< the cursor of the page after it
};

/// Where the batches ran.
struct timeline_place {
  std::uint32_t shard = 0;
  std::string device;
  std::size_t streams = 0;
  std::size_t slots = 0;
};

/// Of a page that a client asks for: it is made on the shard's thread, beside other clients' requests.
inline constexpr std::size_t client_page_bytes = std::size_t{16} << 10U;

/// Writes recent batches as JSON, a page of at most 64 KiB at a time. docs/design.md describes the form.
/// Thread: the shard.
class timeline_pages {
 public:
  timeline_pages(timeline_place where, std::span<const plan> plans);
  /// A plan that comes later; its place is the next.
  void add(const plan& later);

  /// The batches from `cursor` on, as many as fit. A cursor that is older than what is kept, or from another life of
  /// the daemon, means the oldest that is kept. `most_bytes`: a page of more ends, but one batch it always has.
  [[nodiscard]] timeline_page write(recent_batches& from, std::uint64_t cursor, time_point now,
                                    std::size_t most_bytes = wire::max_body_bytes) const;

 private:
  struct description {
    std::string json;
    bool steps = true;  // false for a pipeline of so many that they would not fit on a page
  };

  std::string head_;
  std::vector<description> pipelines_;  // by the place of the plan
};

}  // namespace penstock

#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/batch/slot_ring.hpp"
#include "daemon/pipeline/plan.hpp"
#include "proto/message.hpp"

namespace penstock {

/// "idle", "full", ...: as status and timelines say it.
[[nodiscard]] constexpr std::string_view name_of(close_reason reason) noexcept {
  constexpr std::array<std::string_view, close_reasons> names{"idle", "full", "delay", "extent", "drain"};
  return names[static_cast<std::size_t>(reason)];
}

/// One step of a timed batch, by the device's clock, from the batch's launch on.
struct step_time {
  std::chrono::nanoseconds begin{};
  std::chrono::nanoseconds end{};
};

/// One request of a batch, as its client knows it.
struct request_reference {
  std::uint32_t client = 0;   ///< the client's place with the shard
  std::uint32_t session = 0;  ///< its number; 0 = none
  std::uint64_t id = 0;
  std::uint64_t sequence = 0;
  std::array<std::byte, 16> trace_id{};
  time_point received;
  bool ended_early = false;  ///< it had its reply before the batch was done
};

/// What one batch did. The times are the host's.
struct batch_record {
  std::uint64_t number = 0;    ///< from 1, in the order of completion
  std::uint32_t pipeline = 0;  ///< the place of its plan
  std::uint32_t slot = 0;
  close_reason reason = close_reason::idle;
  bool failed = false;
  std::int64_t frames = 0;
  std::uint32_t requests = 0;    ///< of which the first ones are kept
  std::uint32_t references = 0;  ///< kept
  std::uint32_t streams = 0;     ///< kept: one for each lane of the plan
  std::uint32_t steps = 0;       ///< kept; 0 when it was not timed
  time_point oldest;             ///< when its first request was received
  time_point opened;             ///< when the first one came into the slot
  time_point closed;
  time_point launched;
  time_point completed;
  time_point returned = never;  ///< when the slot was free again; `never` while replies are sent from it
};

/// The last batches of a shard, oldest dropped first. All memory is allocated when it is made. Thread: the shard.
class recent_batches {
 public:
  /// Requests that are kept of a batch.
  static constexpr std::size_t most_references = 16;

  /// One batch and what belongs to it; valid until `most` further ones have been added.
  struct kept_batch {
    batch_record& record;
    std::span<request_reference> references;
    std::span<std::uint32_t> streams;
    std::span<step_time> steps;
  };

  /// Keeps `most` (≥ 1) batches of plans with at most so many steps and lanes.
  recent_batches(std::size_t most, std::size_t steps, std::size_t lanes);

  /// A new batch in place of the oldest, with its number; the caller fills in the rest. The spans have their full size.
  [[nodiscard]] kept_batch add() noexcept;
  /// The spans have the size that is kept. `number` must be between oldest() and next() − 1.
  [[nodiscard]] kept_batch at(std::uint64_t number) noexcept;
  [[nodiscard]] bool has(std::uint64_t number) const noexcept { return number >= oldest() && number < next_; }

  /// The number of the oldest batch that is kept; next() when there is none.
  [[nodiscard]] std::uint64_t oldest() const noexcept;
  /// The number that the next batch will have.
  [[nodiscard]] std::uint64_t next() const noexcept { return next_; }

 private:
  [[nodiscard]] kept_batch place_of(std::uint64_t number) noexcept;

  std::size_t most_steps_;
  std::size_t most_lanes_;
  std::vector<batch_record> records_;
  std::vector<request_reference> references_;  // by record
  std::vector<std::uint32_t> streams_;         // by record
  std::vector<step_time> steps_;               // by record
  std::uint64_t next_ = 1;
};

/// The body of a TRACE, and its cursor.
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

/// Size limit of a page for a client: the shard's thread makes it while other clients' requests wait.
inline constexpr std::size_t client_page_bytes = std::size_t{16} << 10U;

/// Writes recent batches as JSON, a page of at most 64 KiB at a time. docs/design.md describes the form.
/// Thread: the shard.
class timeline_pages {
 public:
  timeline_pages(timeline_place place, std::span<const plan> plans);
  /// A plan of a later configuration; its place is the next.
  void add(const plan& pipeline);

  /// The batches from `cursor` on, as many as fit `most_bytes`, but at least one. A cursor of a batch that is no longer
  /// kept, or of an earlier run of the daemon, means the oldest that is kept.
  [[nodiscard]] timeline_page write(recent_batches& kept, std::uint64_t cursor, time_point now,
                                    std::size_t most_bytes = wire::max_body_bytes) const;

 private:
  struct description {
    std::string json;
    bool steps = true;  // false where they are too many for a page
  };

  std::string head_;
  std::vector<description> pipelines_;  // by the place of the plan
};

}  // namespace penstock

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "daemon/timeline/batch_record.hpp"

namespace penstock {

/// The last batches of a shard, oldest dropped first. All memory is allocated when it is made. Thread: the shard.
class recent_batches {
 public:
  /// Requests that are kept of a batch.
  static constexpr std::size_t most_references = 16;

  /// One batch and what belongs to it; valid until `most` further ones have been added.
  struct kept_batch {
    batch_record& what;
    std::span<request_reference> references;
    std::span<std::uint32_t> streams;
    std::span<step_time> steps;
  };

  /// Room for `most` (≥ 1) batches of plans with at most so many steps and lanes.
  recent_batches(std::size_t most, std::size_t steps, std::size_t lanes);

  /// A new batch in the place of the oldest, with its number; all else is to be written over. The spans have all the
  /// room that there is.
  [[nodiscard]] kept_batch add() noexcept;
  /// The spans have what is kept. `number` must be between oldest() and next() − 1.
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

}  // namespace penstock

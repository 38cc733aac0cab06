#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "daemon/ring/batch.hpp"

namespace penstock {

/// How many long batches may be with the device at once: as few as keep it busy, because whoever comes next waits for
/// all of them. Nothing tells how many that are, so it tries: while work waits all the time, it measures by turns how
/// fast batches get done with as many as now and with fewer (or, from time to time, with more), and keeps the fewer
/// unless they cost more than 3 % of the throughput. Pure: the time is passed in. Thread: the shard.
class in_flight_limit {
 public:
  /// Starts at `most` (≥ 1), which it never exceeds.
  explicit in_flight_limit(std::uint32_t most) noexcept;

  [[nodiscard]] std::uint32_t now() const noexcept { return measured_; }
  /// A batch is done. `in_flight`: how many there were, with it; `work`: how much it was, in any unit, such as bytes.
  void done(std::size_t in_flight, double work, time_point at) noexcept;

 private:
  static constexpr std::uint32_t least = 2;
  static constexpr std::uint32_t batches_a_turn = 16;
  static constexpr std::uint32_t turns = 8;  // of the two together
  static constexpr std::uint32_t shortest_rest = 256;
  static constexpr std::uint32_t longest_rest = 16384;

  struct rate {
    double work = 0;
    double seconds = 0;

    [[nodiscard]] double value() const noexcept { return work / seconds; }
  };

  [[nodiscard]] std::uint32_t fewer() const noexcept;
  [[nodiscard]] std::uint32_t more() const noexcept;
  void begin_trial() noexcept;
  void begin_turn() noexcept;
  void end_turn(time_point at) noexcept;
  void judge() noexcept;

  std::uint32_t most_;
  std::uint32_t limit_;     // that has proved itself
  std::uint32_t trial_;     // what it is compared with; the same as limit_ while it rests
  std::uint32_t measured_;  // of the two, the one that counts now
  bool downwards_ = true;   // where the next trial goes
  std::uint32_t rest_ = 0;  // batches until the next trial
  std::uint32_t next_rest_ = shortest_rest;

  std::uint32_t turn_ = 0;
  std::uint32_t settling_ = 0;  // batches until this turn counts
  std::uint32_t counted_ = 0;
  double work_ = 0;
  time_point begin_{};
  time_point last_{};
  bool busy_ = false;            // whether as much as allowed was in flight when the last one was done
  std::array<rate, 2> rates_{};  // with limit_, with trial_
};

}  // namespace penstock

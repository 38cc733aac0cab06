#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace penstock {

/// How long something took, over and over, in buckets that are at most 1/16 (6.3 %) wide, from 1 ns to 137 s; what took
/// longer counts in the last one. 4 KiB, never allocates. Thread: the shard.
class time_histogram {
 public:
  /// Below 0 counts as 0. `times`: how often it took so long.
  void record(std::chrono::nanoseconds time, std::uint64_t times = 1) noexcept;

  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  [[nodiscard]] std::chrono::nanoseconds max() const noexcept { return max_; }
  /// All of them together, in nanoseconds.
  [[nodiscard]] double sum_ns() const noexcept { return sum_ns_; }
  /// The time that this part (0 … 1) of them did not exceed: the upper end of its bucket, so up to 6.3 % too much, and
  /// never above max. 0 when there are none.
  [[nodiscard]] std::chrono::nanoseconds quantile(double part) const noexcept;
  /// The same cut more coarsely: element k counts those that took at most ends[k] and longer than ends[k − 1], one more
  /// element those that took longer than all. `ends` ascends. A bucket that an end cuts counts as above it.
  [[nodiscard]] std::vector<std::uint64_t> coarse(std::span<const std::chrono::nanoseconds> ends) const;
  /// Calls `with(the longest time of a bucket, how many are in it)` for each that is not empty, upwards.
  template <typename Function>
  void for_each_bucket(Function&& with) const {
    for (std::size_t bucket = 0; bucket < bucket_count; ++bucket) {
      if (buckets_[bucket] != 0) {
        with(std::chrono::nanoseconds{static_cast<std::int64_t>(upper_end(bucket))}, buckets_[bucket]);
      }
    }
  }

 private:
  // Below `steps` a bucket holds one value. From there on each power of two is cut into `steps`.
  static constexpr int step_bits = 4;
  static constexpr std::uint64_t steps = std::uint64_t{1} << step_bits;
  static constexpr int value_bits = 37;
  static constexpr std::size_t bucket_count = steps * (value_bits - step_bits + 1);

  [[nodiscard]] static std::size_t bucket_of(std::uint64_t value) noexcept;
  [[nodiscard]] static std::uint64_t upper_end(std::size_t bucket) noexcept;

  std::array<std::uint64_t, bucket_count> buckets_{};
  std::uint64_t count_ = 0;
  double sum_ns_ = 0;
  std::chrono::nanoseconds max_{0};
};

}  // namespace penstock

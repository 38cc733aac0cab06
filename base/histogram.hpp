#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace penstock {

/// How long something took, over and over. A bucket is at most 1/2^StepBits wide; the last one ends at 2^ValueBits ns
/// and counts what took longer too. Never allocates. Thread: one at a time.
template <int StepBits, int ValueBits>
class histogram {
 public:
  /// Below 0 counts as 0. `times`: how often it took so long.
  void record(std::chrono::nanoseconds time, std::uint64_t times = 1) noexcept;
  void merge(const histogram& other) noexcept;

  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  /// The longest, exactly; 0 when empty, as are `mean`, `quantile` and `percentile`.
  [[nodiscard]] std::chrono::nanoseconds max() const noexcept { return max_; }
  [[nodiscard]] double sum_ns() const noexcept { return sum_ns_; }
  [[nodiscard]] std::chrono::nanoseconds mean() const noexcept;
  /// The time that this part (0 … 1) of all did not exceed: the upper end of its bucket, never above max.
  [[nodiscard]] std::chrono::nanoseconds quantile(double part) const noexcept;
  [[nodiscard]] std::chrono::nanoseconds percentile(double percent) const noexcept { return quantile(percent / 100); }
  /// Coarser buckets: element k counts times ≤ ends[k] and > ends[k − 1], one more element those above all. `ends`
  /// ascends. A bucket that an end cuts counts as above it.
  [[nodiscard]] std::vector<std::uint64_t> coarse(std::span<const std::chrono::nanoseconds> ends) const;
  /// Calls `visit(the longest time of a bucket, how many are in it)` for each that is not empty, upwards.
  template <typename Function>
  void for_each_bucket(Function&& visit) const {
    for (std::size_t bucket = 0; bucket < bucket_count; ++bucket) {
      if (buckets_[bucket] != 0) {
        visit(std::chrono::nanoseconds{static_cast<std::int64_t>(upper_end(bucket))}, buckets_[bucket]);
      }
    }
  }

 private:
  // Below `steps` a bucket holds one value. From there on each power of two is cut into `steps`.
  static constexpr std::uint64_t steps = std::uint64_t{1} << StepBits;
  static constexpr std::size_t bucket_count = steps * (ValueBits - StepBits + 1);

  [[nodiscard]] static std::size_t bucket_of(std::uint64_t value) noexcept;
  [[nodiscard]] static std::uint64_t upper_end(std::size_t bucket) noexcept;

  std::array<std::uint64_t, bucket_count> buckets_{};
  std::uint64_t count_ = 0;
  double sum_ns_ = 0;
  std::chrono::nanoseconds max_{0};
};

/// The daemon's: 6.3 % wide, up to 137 s, 4 KiB.
using time_histogram = histogram<4, 37>;
/// The clients': 1.6 % wide, up to 292 years, 30 KiB.
using latency_histogram = histogram<6, 63>;

extern template class histogram<4, 37>;
extern template class histogram<6, 63>;

}  // namespace penstock

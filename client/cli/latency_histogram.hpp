#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace penstock::cli {

/// Latencies in buckets that are at most 1/64 (1.6 %) wide, from 1 ns to 9 years, in 30 KiB. One writer at a time.
class latency_histogram {
 public:
  latency_histogram();

  /// Below 0 counts as 0.
  void record(std::chrono::nanoseconds latency) noexcept;
  void merge(const latency_histogram& other) noexcept;

  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  /// The largest, exactly; 0 when empty.
  [[nodiscard]] std::chrono::nanoseconds max() const noexcept { return std::chrono::nanoseconds{max_}; }
  [[nodiscard]] std::chrono::nanoseconds mean() const noexcept;
  /// A latency that `percent` of all do not exceed: the upper end of its bucket, never more than max. 0 when empty.
  [[nodiscard]] std::chrono::nanoseconds percentile(double percent) const noexcept;

 private:
  std::vector<std::uint64_t> buckets_;
  std::uint64_t count_ = 0;
  std::int64_t max_ = 0;
  double sum_ = 0;
};

}  // namespace penstock::cli

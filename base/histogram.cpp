#include "base/histogram.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

namespace penstock {

template <int StepBits, int ValueBits>
std::size_t histogram<StepBits, ValueBits>::bucket_of(std::uint64_t value) noexcept {
  if (value < steps) {
    return static_cast<std::size_t>(value);
  }
  if (value >> ValueBits != 0) {
    return bucket_count - 1;
  }
  const int shift = static_cast<int>(std::bit_width(value)) - StepBits - 1;
  return static_cast<std::size_t>((static_cast<std::uint64_t>(shift) + 1) * steps + ((value >> shift) - steps));
}

template <int StepBits, int ValueBits>
std::uint64_t histogram<StepBits, ValueBits>::upper_end(std::size_t bucket) noexcept {
  if (bucket < steps) {
    return bucket;
  }
  const auto shift = bucket / steps - 1;
  return ((bucket % steps + steps + 1) << shift) - 1;
}

template <int StepBits, int ValueBits>
void histogram<StepBits, ValueBits>::record(std::chrono::nanoseconds time, std::uint64_t times) noexcept {
  const std::chrono::nanoseconds counted = std::max(time, std::chrono::nanoseconds{0});
  buckets_[bucket_of(static_cast<std::uint64_t>(counted.count()))] += times;
  count_ += times;
  sum_ns_ += static_cast<double>(counted.count()) * static_cast<double>(times);
  max_ = times != 0 ? std::max(max_, counted) : max_;
}

template <int StepBits, int ValueBits>
void histogram<StepBits, ValueBits>::merge(const histogram& other) noexcept {
  std::transform(buckets_.begin(), buckets_.end(), other.buckets_.begin(), buckets_.begin(), std::plus<>{});
  count_ += other.count_;
  sum_ns_ += other.sum_ns_;
  max_ = std::max(max_, other.max_);
}

template <int StepBits, int ValueBits>
std::chrono::nanoseconds histogram<StepBits, ValueBits>::mean() const noexcept {
  return std::chrono::nanoseconds{count_ == 0 ? 0 : std::llround(sum_ns_ / static_cast<double>(count_))};
}

template <int StepBits, int ValueBits>
std::chrono::nanoseconds histogram<StepBits, ValueBits>::quantile(double part) const noexcept {
  const double wanted = std::ceil(std::clamp(part, 0.0, 1.0) * static_cast<double>(count_));
  const auto rank = std::max<std::uint64_t>(static_cast<std::uint64_t>(wanted), 1);
  std::uint64_t seen = 0;
  // What is beyond the last bucket's end is in it all the same.
  for (std::size_t bucket = 0; bucket + 1 < bucket_count; ++bucket) {
    seen += buckets_[bucket];
    if (seen >= rank) {
      return std::min(std::chrono::nanoseconds{static_cast<std::int64_t>(upper_end(bucket))}, max_);
    }
  }
  return max_;
}

template <int StepBits, int ValueBits>
std::vector<std::uint64_t> histogram<StepBits, ValueBits>::coarse(
    std::span<const std::chrono::nanoseconds> ends) const {
  std::vector<std::uint64_t> counts(ends.size() + 1);
  std::size_t coarse = 0;
  for (std::size_t bucket = 0; bucket < bucket_count; ++bucket) {
    // The last one has no upper end.
    const bool last = bucket + 1 == bucket_count;
    while (coarse < ends.size() && (last || static_cast<std::int64_t>(upper_end(bucket)) > ends[coarse].count())) {
      ++coarse;
    }
    counts[coarse] += buckets_[bucket];
  }
  return counts;
}

template class histogram<4, 37>;
template class histogram<6, 63>;

}  // namespace penstock

#include "client/cli/latency_histogram.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace penstock::cli {
namespace {

// Below 64 a bucket holds one value. From there on each power of two is cut into 64.
constexpr std::uint64_t steps = 64;
constexpr int step_bits = 6;
constexpr std::size_t bucket_count = steps * (64 - step_bits);

std::size_t bucket_of(std::uint64_t value) noexcept {
  if (value < steps) {
    return static_cast<std::size_t>(value);
  }
  const int shift = static_cast<int>(std::bit_width(value)) - step_bits - 1;
  return static_cast<std::size_t>((static_cast<std::uint64_t>(shift) + 1) * steps + ((value >> shift) - steps));
}

/// The largest value of a bucket.
std::uint64_t upper_end(std::size_t bucket) noexcept {
  if (bucket < steps) {
    return bucket;
  }
  const auto shift = bucket / steps - 1;
  return ((bucket % steps + steps + 1) << shift) - 1;
}

}  // namespace

latency_histogram::latency_histogram() : buckets_(bucket_count) {}

void latency_histogram::record(std::chrono::nanoseconds latency) noexcept {
  const std::int64_t value = std::max<std::int64_t>(latency.count(), 0);
  ++buckets_[bucket_of(static_cast<std::uint64_t>(value))];
  ++count_;
  max_ = std::max(max_, value);
  sum_ += static_cast<double>(value);
}

void latency_histogram::merge(const latency_histogram& other) noexcept {
  std::transform(buckets_.begin(), buckets_.end(), other.buckets_.begin(), buckets_.begin(), std::plus<>{});
  count_ += other.count_;
  max_ = std::max(max_, other.max_);
  sum_ += other.sum_;
}

std::chrono::nanoseconds latency_histogram::mean() const noexcept {
  return std::chrono::nanoseconds{count_ == 0 ? 0 : std::llround(sum_ / static_cast<double>(count_))};
}

std::chrono::nanoseconds latency_histogram::percentile(double percent) const noexcept {
  const double wanted = std::ceil(std::clamp(percent, 0.0, 100.0) / 100.0 * static_cast<double>(count_));
  const auto rank = std::max<std::uint64_t>(static_cast<std::uint64_t>(wanted), 1);
  std::uint64_t seen = 0;
  for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    seen += buckets_[bucket];
    if (seen >= rank) {
      return std::chrono::nanoseconds{std::min(static_cast<std::int64_t>(upper_end(bucket)), max_)};
    }
  }
  return std::chrono::nanoseconds{max_};
}

}  // namespace penstock::cli

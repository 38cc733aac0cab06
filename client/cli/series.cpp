#include "client/cli/series.hpp"

#include <algorithm>
#include <cmath>

namespace penstock::cli {
namespace {

void merge(series::bucket& into, const series::bucket& other) {
  if (other.count == 0) {
    return;
  }
  into.low = into.count == 0 ? other.low : std::min(into.low, other.low);
  into.high = into.count == 0 ? other.high : std::max(into.high, other.high);
  into.sum += other.sum;
  into.count += other.count;
}

}  // namespace

void series::add(double number) {
  if (buckets_.empty() || in_last_ == stride_) {
    if (buckets_.size() == most_buckets_) {
      halve();
    } else {
      in_last_ = 0;
    }
    if (in_last_ == 0) {
      buckets_.emplace_back();
    }
  }
  ++in_last_;
  ++size_;
  if (std::isfinite(number)) {
    const bucket one{number, number, number, 1};
    merge(buckets_.back(), one);
    merge(whole_, one);
  }
}

void series::halve() {
  std::vector<bucket> halved;
  halved.reserve(most_buckets_);
  for (std::size_t at = 0; at < buckets_.size(); at += 2) {
    halved.push_back(buckets_[at]);
    if (at + 1 < buckets_.size()) {
      merge(halved.back(), buckets_[at + 1]);
    }
  }
  const bool last_is_half = buckets_.size() % 2 == 1;
  in_last_ = last_is_half ? stride_ : 0;
  stride_ *= 2;
  buckets_ = std::move(halved);
}

std::vector<series::bucket> series::cut(std::size_t count) const {
  std::vector<bucket> parts(count);
  if (buckets_.empty()) {
    return parts;
  }
  for (std::size_t part = 0; part < count; ++part) {
    const std::size_t first = part * buckets_.size() / count;
    const std::size_t end = std::max((part + 1) * buckets_.size() / count, first + 1);
    for (std::size_t at = first; at < end; ++at) {
      merge(parts[part], buckets_[at]);
    }
  }
  return parts;
}

}  // namespace penstock::cli

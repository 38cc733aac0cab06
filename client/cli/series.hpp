#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace penstock::cli {

/// A run of numbers of any length in a bounded number of buckets, each of as many numbers as the others (but for the
/// last). Numbers that are not finite are left out.
class series {
 public:
  struct bucket {
    double low = 0;
    double high = 0;
    double sum = 0;
    std::uint64_t count = 0;  ///< of finite numbers: 0 = there is nothing to see

    [[nodiscard]] double mean() const noexcept { return count == 0 ? 0 : sum / static_cast<double>(count); }
  };

  series() = default;
  explicit series(std::size_t most_buckets) : most_buckets_(most_buckets) {}

  void add(double number);
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  /// Everything in one bucket.
  [[nodiscard]] const bucket& whole() const noexcept { return whole_; }
  /// The run cut into `count` parts; parts that hold nothing of their own repeat their neighbour.
  [[nodiscard]] std::vector<bucket> cut(std::size_t count) const;

 private:
  void halve();

  std::size_t most_buckets_ = 1024;
  std::uint64_t stride_ = 1;  ///< numbers a bucket
  std::uint64_t in_last_ = 0;
  std::uint64_t size_ = 0;
  bucket whole_;
  std::vector<bucket> buckets_;
};

}  // namespace penstock::cli

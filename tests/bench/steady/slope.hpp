#pragma once

#include <cstddef>
#include <vector>

namespace penstock::bench {

/// What a straight line through the points (least squares) gains from the first x to the last. 0 for fewer than two.
[[nodiscard]] double gain_of(const std::vector<double>& x, const std::vector<double>& y);

/// Whether a series stays as it is after its warm-up, the first fifth: its straight line gains at most
/// `share` of its mean and `room`.
struct flatness {
  double gain = 0;    ///< of the straight line, after the warm-up
  double margin = 0;  ///< that it may have
  [[nodiscard]] bool flat() const noexcept { return gain <= margin; }
};
[[nodiscard]] flatness flatness_of(const std::vector<double>& x, const std::vector<double>& y, double share,
                                   double room);

}  // namespace penstock::bench

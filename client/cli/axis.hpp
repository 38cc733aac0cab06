#pragma once

#include <string>
#include <vector>

namespace penstock::cli {

struct tick {
  double position = 0;  ///< along the axis, from 0 to 1
  std::string label;
};

/// What one side of a picture measures.
struct axis {
  double low = 0;
  double high = 1;
  std::string unit;      ///< "Hz", "s", ...; "" = none
  bool prefixed = true;  ///< whether the unit takes k, M, m, u

  /// Ticks at round values (1, 2 or 5 times a power of ten), at most so many, in rising order. None for an empty axis.
  [[nodiscard]] std::vector<tick> ticks(int at_most) const;
};

}  // namespace penstock::cli

#pragma once

#include <string>
#include <vector>

namespace penstock::bench {

/// One measured quantity over another. `y` is as long as `x`; `least` and `most` are that long too, or both empty:
/// then no spread is drawn. A point that is not finite, or not above zero on a logarithmic axis, is left out.
struct chart_line {
  std::string name;
  std::vector<double> x, y, least, most;
};

/// A label that ends in "bytes" has ticks such as 4 KiB and 1 MiB.
struct chart {
  std::string title, x_label, y_label;
  bool log_x = false, log_y = false;
  std::vector<chart_line> lines;
};

/// One drawing of all of them, as SVG: it needs nothing else, brings its own background, and follows the reader's
/// preference for light or dark. At most three stand beside one another; the rest goes below. One legend names the
/// lines of all: those of one name have one colour. Throws std::invalid_argument on a line with unequal lengths.
[[nodiscard]] std::string draw_charts(const std::vector<chart>& side_by_side);

}  // namespace penstock::bench

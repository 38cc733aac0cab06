#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "client/cli/terminal.hpp"

namespace penstock::cli {

struct tick {
  double position = 0;  ///< along the axis, from 0 to 1
  std::string label;
};

/// An axis of a plot.
struct axis {
  double low = 0;
  double high = 1;
  std::string unit;      ///< "Hz", "s", ...; "" = none
  bool prefixed = true;  ///< whether the unit takes SI prefixes

  /// At most `at_most` ticks at round values (1, 2 or 5 times a power of ten), ascending. None for an empty axis.
  [[nodiscard]] std::vector<tick> ticks(int at_most) const;
};

/// The frame of a plot: labels on the left and below.
class plot_frame {
 public:
  /// At most `rows` lines, not wider than the terminal. `note` follows the labels below.
  plot_frame(const terminal& screen, int rows, const axis& left, const axis& below, std::string note);

  /// Size of the plot area in cells; at least 1 × 1.
  [[nodiscard]] int width() const noexcept { return width_; }
  [[nodiscard]] int height() const noexcept { return height_; }
  /// Cells to the left of the plot area.
  [[nodiscard]] int indent() const noexcept { return label_width_ + 2; }

  /// All lines. `row_text` returns a row of the plot area, counted from the top, exactly width() cells wide.
  [[nodiscard]] std::string draw(const std::function<std::string(int)>& row_text) const;

 private:
  [[nodiscard]] std::string labels_below() const;

  terminal where_;
  axis below_;
  std::string note_;
  int height_;
  int width_;
  int label_width_ = 0;
  std::vector<std::string> labels_;  ///< by row
};

/// A perceptually even color map from black to pale yellow. `level` from 0 to 1.
[[nodiscard]] rgb heat_color(double level) noexcept;
/// Ten ASCII shades from blank to dense.
[[nodiscard]] char heat_shade(double level) noexcept;

/// Cells of a heat map, the highest row first, and the range that the colors stand for.
struct heat_grid {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::vector<double> values;
  double low = 0;
  double high = 1;

  /// Rows of a grid in so many lines: with colors, a line has two.
  [[nodiscard]] static std::size_t rows_in(int lines, const terminal& screen) noexcept;
  /// A line of the plot area.
  [[nodiscard]] std::string line(const terminal& screen, int number) const;
  /// The colors from `low` to `high`. `unit`: "" = none.
  [[nodiscard]] std::string legend(const terminal& screen, int indent, const std::string& unit) const;

 private:
  [[nodiscard]] double level(std::size_t row, std::size_t column) const;
};

/// Summarises any number of values in a bounded number of buckets of equal size. Ignores values that are not finite.
class series {
 public:
  struct bucket {
    double low = 0;
    double high = 0;
    double sum = 0;
    std::uint64_t count = 0;  ///< finite numbers; 0 = empty

    [[nodiscard]] double mean() const noexcept { return count == 0 ? 0 : sum / static_cast<double>(count); }
  };

  series() = default;
  explicit series(std::size_t most_buckets) : most_buckets_(most_buckets) {}

  void add(double number);
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  /// All values in one bucket.
  [[nodiscard]] const bucket& whole() const noexcept { return whole_; }
  /// The values in `count` parts; an empty part repeats its neighbour.
  [[nodiscard]] std::vector<bucket> cut(std::size_t count) const;

 private:
  void halve();

  std::size_t most_buckets_ = 1024;
  std::uint64_t stride_ = 1;  ///< numbers per bucket
  std::uint64_t in_last_ = 0;
  std::uint64_t size_ = 0;
  bucket whole_;
  std::vector<bucket> buckets_;
};

}  // namespace penstock::cli

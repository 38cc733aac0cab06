#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "client/cli/picture.hpp"
#include "client/cli/series.hpp"

namespace penstock::cli {

/// Mean, standard deviation, minimum, maximum and rms of each frame: what they were over all of them, and how they
/// went. Where a frame has several rows of moments, each has its table.
class moments_table : public picture {
 public:
  static constexpr std::size_t moments = 5;
  static constexpr std::size_t most_rows = 4;  ///< further rows are left out, and that is said

  moments_table(std::string title, bool complex_input);

  void add(std::span<const float> frame) override;
  [[nodiscard]] std::string draw(const terminal& where, int rows) const override;

 private:
  [[nodiscard]] std::string row_name(std::size_t row) const;

  std::string title_;
  bool complex_input_;
  std::uint64_t frames_ = 0;
  std::size_t rows_ = 0;
  std::vector<std::array<series, moments>> tables_;
};

/// A line of `width` cells that rises and falls with the numbers.
[[nodiscard]] std::string sparkline(const series& numbers, std::size_t width, bool ascii);

}  // namespace penstock::cli

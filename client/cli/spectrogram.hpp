#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "client/cli/picture.hpp"

namespace penstock::cli {

/// Power over time (left to right) and frequency (bottom to top), in decibels. Frames beyond max_columns share columns:
/// neighbours are averaged.
class spectrogram : public picture {
 public:
  static constexpr std::size_t max_columns = 512;
  static constexpr std::size_t max_bins = 2048;

  spectrogram(std::string title, const sample_clock& clock);

  /// Power in each bin, DC first; a frame that has negative values is taken for decibels.
  void add(std::span<const float> frame) override;
  [[nodiscard]] std::string draw(const terminal& where, int rows) const override;

 private:
  struct grid;  ///< decibels in cells, the highest frequency first

  void halve();
  /// How many of a frame's bins share one that is kept.
  [[nodiscard]] std::size_t bins_sharing(std::size_t kept) const;
  [[nodiscard]] grid grid_of(std::size_t rows, std::size_t columns) const;
  [[nodiscard]] double cell(std::size_t first_column, std::size_t end_column, std::size_t first_bin,
                            std::size_t end_bin) const;
  [[nodiscard]] std::string headline(const terminal& where) const;
  [[nodiscard]] std::string legend(const grid& from, const terminal& where, std::size_t indent) const;

  std::string title_;
  sample_clock clock_;
  std::size_t bins_ = 0;       ///< of a frame
  std::size_t kept_bins_ = 0;  ///< of a column
  bool decibels_ = false;
  std::uint64_t frames_ = 0;
  std::uint64_t stride_ = 1;                  ///< frames a column
  std::uint64_t in_last_ = 0;                 ///< frames in the last column
  std::vector<std::vector<double>> columns_;  ///< sums over their frames
};

}  // namespace penstock::cli

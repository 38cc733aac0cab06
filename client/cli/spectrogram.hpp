#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "client/cli/picture.hpp"
#include "client/cli/plot.hpp"

namespace penstock::cli {

/// Rows over time (left to right), each from bottom to top: spectra in decibels over frequency, or any numbers over
/// their places. Beyond max_columns, neighbouring rows are averaged.
class spectrogram : public picture {
 public:
  static constexpr std::size_t max_columns = 512;
  static constexpr std::size_t max_bins = 2048;

  /// What a row holds.
  enum class content {
    spectrum,    ///< power per bin, DC first, of the pipeline's input
    power,       ///< per bin, channel or band
    magnitudes,  ///< the same, before it is squared
    numbers,
  };

  spectrogram(std::string title, const sample_clock& clock, content rows = content::spectrum);

  /// Power with negative values is taken as decibels.
  void add(std::span<const float> frame) override;
  [[nodiscard]] std::string draw(const terminal& screen, int rows) const override;

 private:
  [[nodiscard]] double joined(double one, double other) const noexcept;
  void halve();
  /// Number of a frame's bins per kept bin.
  [[nodiscard]] std::size_t bins_sharing(std::size_t kept) const;
  /// Decibels or numbers per cell, highest place first.
  [[nodiscard]] heat_grid grid_of(std::size_t rows, std::size_t columns) const;
  [[nodiscard]] double cell(std::size_t first_column, std::size_t end_column, std::size_t first_bin,
                            std::size_t end_bin) const;
  [[nodiscard]] std::string headline(const terminal& screen) const;

  std::string title_;
  sample_clock clock_;
  content content_;
  std::size_t bins_ = 0;       ///< per frame
  std::size_t kept_bins_ = 0;  ///< per column
  bool decibels_ = false;
  std::uint64_t frames_ = 0;
  std::uint64_t stride_ = 1;                  ///< frames per column
  std::uint64_t in_last_ = 0;                 ///< frames in the last column
  std::vector<std::vector<double>> columns_;  ///< sums of powers over frames, or the largest number
};

}  // namespace penstock::cli

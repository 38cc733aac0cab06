#include "client/cli/spectrogram.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/quantity.hpp"

namespace penstock::cli {
namespace {

constexpr double nothing = -std::numeric_limits<double>::infinity();
/// Largest dynamic range that is drawn.
constexpr double most_decibels = 80;
constexpr double least_decibels = 20;

/// The range between low and high percentiles, so that a few extremes do not reduce the contrast.
void find_range(heat_grid& grid, bool of_decibels) {
  std::vector<double> finite;
  std::copy_if(grid.values.begin(), grid.values.end(), std::back_inserter(finite),
               [](double each) { return std::isfinite(each); });
  if (finite.empty()) {
    grid.high = 0;
    grid.low = -least_decibels;
    return;
  }
  std::sort(finite.begin(), finite.end());
  const auto at_share = [&finite](double share) {
    return finite[static_cast<std::size_t>(share * static_cast<double>(finite.size() - 1))];
  };
  grid.high = at_share(0.998);
  grid.low = at_share(0.15);
  if (of_decibels) {
    grid.low = std::min(std::max(grid.low, grid.high - most_decibels), grid.high - least_decibels);
  } else if (grid.low == grid.high) {
    grid.low = grid.high - 1;
  }
}

}  // namespace

spectrogram::spectrogram(std::string title, const sample_clock& clock, content rows)
    : title_(std::move(title)), clock_(clock), content_(rows) {}

void spectrogram::add(std::span<const float> frame) {
  if (frame.empty() || (frames_ > 0 && frame.size() != bins_)) {
    return;  // a shorter last frame has different bins
  }
  bins_ = frame.size();
  kept_bins_ = std::min(bins_, max_bins);
  if (columns_.empty() || in_last_ == stride_) {
    if (columns_.size() == max_columns) {
      halve();
    }
    columns_.emplace_back(kept_bins_, content_ == content::numbers ? nothing : 0);
    in_last_ = 0;
  }
  std::vector<double>& column = columns_.back();
  const bool turned = clock_.complex_input && content_ == content::spectrum;
  for (std::size_t bin = 0; bin < bins_; ++bin) {
    const auto number = static_cast<double>(frame[bin]);
    const std::size_t place = turned ? (bin + bins_ / 2) % bins_ : bin;  // lowest frequency first
    const std::size_t kept = place * kept_bins_ / bins_;
    if (!std::isfinite(number)) {
      continue;
    }
    if (content_ == content::numbers) {
      column[kept] = std::max(column[kept], number);
      continue;
    }
    decibels_ = decibels_ || number < 0;
    column[kept] +=
        (content_ == content::magnitudes ? number * number : number) / static_cast<double>(bins_sharing(kept));
  }
  ++in_last_;
  ++frames_;
}

std::size_t spectrogram::bins_sharing(std::size_t kept) const {
  const auto first = [this](std::size_t group) { return (group * bins_ + kept_bins_ - 1) / kept_bins_; };
  return first(kept + 1) - first(kept);
}

double spectrogram::joined(double one, double other) const noexcept {
  return content_ == content::numbers ? std::max(one, other) : one + other;
}

/// Merges pairs of columns. max_columns is even, so all columns then have equally many frames.
void spectrogram::halve() {
  for (std::size_t at = 0; at < columns_.size() / 2; ++at) {
    std::transform(columns_[2 * at].begin(), columns_[2 * at].end(), columns_[2 * at + 1].begin(),
                   columns_[2 * at].begin(), [this](double one, double other) { return joined(one, other); });
    std::swap(columns_[at], columns_[2 * at]);
  }
  columns_.resize(columns_.size() / 2);
  stride_ *= 2;
}

double spectrogram::cell(std::size_t first_column, std::size_t end_column, std::size_t first_bin,
                         std::size_t end_bin) const {
  double all = content_ == content::numbers ? nothing : 0;
  double frames = 0;
  for (std::size_t column = first_column; column < end_column; ++column) {
    for (std::size_t bin = first_bin; bin < end_bin; ++bin) {
      all = joined(all, columns_[column][bin]);
    }
    frames += static_cast<double>(column + 1 == columns_.size() ? in_last_ : stride_);
  }
  if (content_ == content::numbers) {
    return all;
  }
  const double mean = all / (frames * static_cast<double>(end_bin - first_bin));
  return decibels_ ? mean : mean > 0 ? 10 * std::log10(mean) : nothing;
}

heat_grid spectrogram::grid_of(std::size_t rows, std::size_t columns) const {
  heat_grid made;
  made.rows = rows;
  made.columns = columns;
  made.values.resize(rows * columns);
  const auto part = [](std::size_t group, std::size_t count, std::size_t at) {
    const std::size_t first = at * group / count;
    return std::pair{first, std::max((at + 1) * group / count, first + 1)};
  };
  for (std::size_t row = 0; row < rows; ++row) {
    const auto [first_bin, end_bin] = part(kept_bins_, rows, rows - 1 - row);
    for (std::size_t column = 0; column < columns; ++column) {
      const auto [first, end] = part(columns_.size(), columns, column);
      made.values[row * columns + column] = cell(first, end, first_bin, end_bin);
    }
  }
  find_range(made, content_ != content::numbers);
  return made;
}

std::string spectrogram::headline(const terminal& screen) const {
  const std::string facts = "  " + count_text(static_cast<double>(frames_)) + " " + clock_.unit + "s of " +
                            count_text(static_cast<double>(bins_)) +
                            (content_ == content::spectrum ? " bins" : " numbers");
  return strong(screen.colors, title_) + faint(screen.colors, facts) + "\n";
}

std::string spectrogram::draw(const terminal& screen, int rows) const {
  if (frames_ == 0) {
    return title_ + ": no frames\n";
  }
  const double rate = clock_.rate.value_or(1);
  const axis upwards = content_ == content::spectrum ? axis{clock_.complex_input ? -rate / 2 : 0, rate / 2,
                                                            clock_.rate ? "Hz" : "fs", clock_.rate.has_value()}
                                                     : axis{0, static_cast<double>(bins_ - 1), "", false};
  const double samples = static_cast<double>(frames_) * static_cast<double>(clock_.frame_samples);
  const axis time = clock_.rate ? axis{clock_.start(), clock_.start() + samples / rate, "s", true}
                                : axis{0, static_cast<double>(frames_), "", false};
  const plot_frame around{screen, rows - 2, upwards, time, clock_.rate ? "" : clock_.unit};
  heat_grid cells = grid_of(heat_grid::rows_in(around.height(), screen), static_cast<std::size_t>(around.width()));
  const std::string drawn = around.draw([&](int row) { return cells.line(screen, row); });
  if (content_ == content::numbers) {
    return headline(screen) + drawn + cells.legend(screen, around.indent(), "");
  }
  cells.low = std::round(cells.low);
  cells.high = std::round(cells.high);
  return headline(screen) + drawn + cells.legend(screen, around.indent(), " dB");
}

}  // namespace penstock::cli

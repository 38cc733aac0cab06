#include "client/cli/bar_chart.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "client/cli/plot_frame.hpp"
#include "client/cli/quantity.hpp"

namespace penstock::cli {
namespace {

constexpr int most_bar_rows = 12;

/// A cell that is full up to `share`.
std::string_view cell_of(double share, bool ascii) {
  constexpr std::array<std::string_view, 9> eighths{" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr std::array<std::string_view, 3> shades{" ", ".", "#"};
  const double level = std::clamp(share, 0.0, 1.0);
  return ascii ? shades[static_cast<std::size_t>(std::lround(level * 2))]
               : eighths[static_cast<std::size_t>(std::lround(level * 8))];
}

}  // namespace

bar_chart::bar_chart(std::string title) : title_(std::move(title)) {}

void bar_chart::add(std::span<const float> frame) {
  counts_.resize(std::max(counts_.size(), frame.size()));
  ++frames_;
  for (std::size_t bin = 0; bin < frame.size(); ++bin) {
    counts_[bin] += std::isfinite(frame[bin]) ? static_cast<double>(frame[bin]) : 0.0;
  }
}

std::string bar_chart::draw(const terminal& where, int rows) const {
  if (counts_.empty()) {
    return title_ + ": no frames\n";
  }
  const auto bins = static_cast<double>(counts_.size());
  const double total = std::accumulate(counts_.begin(), counts_.end(), 0.0);
  const auto bars_of = [this](std::size_t width) {
    std::vector<double> bars(std::min(width, counts_.size()));
    for (std::size_t bin = 0; bin < counts_.size(); ++bin) {
      bars[bin * bars.size() / counts_.size()] += counts_[bin];
    }
    return bars;
  };
  const int height = std::min(rows - 1, most_bar_rows);
  // The labels' width is known once the highest bar is, and that once the width is: one round of each is enough.
  const plot_frame guess{where, height, axis{0, std::max(total, 1.0), "", true}, axis{0, bins - 1, "", false}, ""};
  const auto width = static_cast<std::size_t>(std::max(guess.width(), 1));
  const std::vector<double> bars = bars_of(width);
  const double highest = std::max(*std::max_element(bars.begin(), bars.end()), 1.0);
  const plot_frame around{where, height, axis{0, highest, "", false}, axis{0, bins - 1, "", false}, "bin"};
  const bool ascii = where.colors == color_depth::none;
  const auto row_text = [&](int row) {
    std::string text = foreground(where.colors, {120, 214, 150});
    for (int column = 0; column < around.width(); ++column) {
      const auto bar = static_cast<std::size_t>(column) * bars.size() / static_cast<std::size_t>(around.width());
      const double full = bars[bar] / highest * around.height();
      text += cell_of(full - (around.height() - 1 - row), ascii);
    }
    return text + plain(where.colors);
  };
  const std::string facts = "  " + count_text(static_cast<double>(frames_)) + " frames, " + count_text(total) +
                            " counts in " + count_text(bins) + " bins";
  return strong(where.colors, title_) + faint(where.colors, facts) + "\n" + around.draw(row_text);
}

}  // namespace penstock::cli

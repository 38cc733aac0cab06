#include "client/cli/line_chart.hpp"

#include <algorithm>
#include <utility>

#include "client/cli/palette.hpp"
#include "client/cli/plot_frame.hpp"
#include "client/cli/quantity.hpp"

namespace penstock::cli {
namespace {

constexpr int most_line_rows = 14;

/// What a cell shows of a range that covers it from `low` to `high`, 0 being its lower edge and 1 its upper.
std::string_view cell_of(double low, double high, bool ascii) {
  const bool lower = low < 0.5 && high > 0;
  const bool upper = low < 1 && high > 0.5;
  if (ascii) {
    return lower && upper ? "#" : lower ? "." : upper ? "'" : " ";
  }
  return lower && upper ? "█" : lower ? "▄" : upper ? "▀" : " ";
}

}  // namespace

line_chart::line_chart(std::string title, const sample_clock& clock) : title_(std::move(title)), clock_(clock) {}

void line_chart::add(std::span<const float> frame) {
  ++frames_;
  for (const float number : frame) {
    numbers_.add(number);
  }
}

std::string line_chart::draw(const terminal& where, int rows) const {
  const series::bucket& whole = numbers_.whole();
  if (whole.count == 0) {
    return title_ + ": no numbers\n";
  }
  const bool flat = whole.low == whole.high;
  const double low = flat ? whole.low - 0.5 : whole.low;
  const double high = flat ? whole.high + 0.5 : whole.high;
  const double seconds =
      static_cast<double>(frames_) * static_cast<double>(clock_.frame_samples) / clock_.rate.value_or(1);
  const axis below = clock_.rate ? axis{0, seconds, "s", true} : axis{0, static_cast<double>(frames_), "", false};
  const plot_frame around{where, std::min(rows - 1, most_line_rows), axis{low, high, "", false}, below,
                          clock_.rate ? "" : clock_.unit};
  const auto parts = numbers_.cut(static_cast<std::size_t>(around.width()));
  const double cell_height = (high - low) / around.height();
  const auto row_text = [&](int row) {
    const double floor = low + (around.height() - 1 - row) * cell_height;
    std::string text = foreground(where.colors, {92, 200, 255});
    for (const series::bucket& part : parts) {
      const double from = (part.low - floor) / cell_height;
      const double to = std::max((part.high - floor) / cell_height, from + 0.5);  // a single value is to be seen too
      text += part.count == 0 ? " " : cell_of(from, to, where.colors == color_depth::none);
    }
    return text + plain(where.colors);
  };
  const std::string facts = "  " + count_text(static_cast<double>(frames_)) + " " + clock_.unit + "s, from " +
                            number_text(whole.low) + " to " + number_text(whole.high);
  return strong(where.colors, title_) + faint(where.colors, facts) + "\n" + around.draw(row_text);
}

}  // namespace penstock::cli

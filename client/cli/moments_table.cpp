#include "client/cli/moments_table.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "client/cli/quantity.hpp"

namespace penstock::cli {
namespace {

constexpr std::array<std::string_view, moments_table::moments> names{"mean", "std", "min", "max", "rms"};
constexpr std::size_t name_width = 6;
constexpr std::size_t number_width = 11;

std::string right(std::string_view text, std::size_t width) {
  return std::string(width - std::min(width, text.size()), ' ') + std::string(text);
}

std::string left(std::string_view text, std::size_t width) {
  return std::string(text) + std::string(width - std::min(width, text.size()), ' ');
}

}  // namespace

std::string sparkline(const series& numbers, std::size_t width, bool ascii) {
  constexpr std::array<std::string_view, 8> blocks{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr std::array<std::string_view, 8> shades{"_", ".", ",", "-", "=", "+", "*", "#"};
  const double span = numbers.whole().high - numbers.whole().low;
  std::string text;
  for (const series::bucket& part : numbers.cut(width)) {
    const double share = span > 0 ? (part.mean() - numbers.whole().low) / span : 0.5;
    const auto step = static_cast<std::size_t>(std::lround(std::clamp(share, 0.0, 1.0) * 7));
    text += part.count == 0 ? " " : ascii ? shades[step] : blocks[step];
  }
  return text;
}

moments_table::moments_table(std::string title, bool complex_input)
    : title_(std::move(title)), complex_input_(complex_input) {}

std::string moments_table::row_name(std::size_t row) const {
  constexpr std::array<std::string_view, 3> views{"I", "Q", "|z|"};
  if (complex_input_ && rows_ == views.size()) {
    return std::string(views[row]);
  }
  return rows_ > 1 ? "[" + std::to_string(row) + "]" : "";
}

void moments_table::add(std::span<const float> frame) {
  ++frames_;
  rows_ = std::max(rows_, frame.size() / moments);
  while (tables_.size() < std::min(rows_, most_rows)) {
    tables_.emplace_back();
  }
  for (std::size_t row = 0; row < tables_.size() && (row + 1) * moments <= frame.size(); ++row) {
    for (std::size_t each = 0; each < moments; ++each) {
      tables_[row][each].add(frame[row * moments + each]);
    }
  }
}

std::string moments_table::draw(const terminal& where, int /*rows*/) const {
  std::string text = strong(where.colors, title_) +
                     faint(where.colors, "  " + count_text(static_cast<double>(frames_)) + " frames") + "\n";
  const std::size_t numbers_end = 2 + name_width + 3 * number_width + 2;
  const auto room = static_cast<std::size_t>(std::max(where.columns - 1, 0));
  const std::size_t spark = room > numbers_end ? room - numbers_end : 0;
  const std::string over = spark >= 12 ? "  over the frames" : "";
  const std::string head =
      right("lowest", number_width) + right("mean", number_width) + right("highest", number_width) + over;
  for (std::size_t row = 0; row < tables_.size(); ++row) {
    text += faint(where.colors, "  " + left(row_name(row), name_width) + head) + "\n";
    for (std::size_t each = 0; each < moments; ++each) {
      const series& numbers = tables_[row][each];
      text += "  " + left(names[each], name_width) + right(number_text(numbers.whole().low), number_width) +
              right(number_text(numbers.whole().mean()), number_width) +
              right(number_text(numbers.whole().high), number_width) + "  " + foreground(where.colors, {252, 180, 40}) +
              sparkline(numbers, spark, where.colors == color_depth::none) + plain(where.colors) + "\n";
    }
  }
  if (rows_ > tables_.size()) {
    text += "  (the first " + std::to_string(tables_.size()) + " of " + std::to_string(rows_) + " rows)\n";
  }
  return text;
}

}  // namespace penstock::cli

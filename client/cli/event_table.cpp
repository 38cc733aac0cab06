#include "client/cli/event_table.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "client/cli/quantity.hpp"

namespace penstock::cli {
namespace {

constexpr std::size_t column = 12;

std::string right(std::string_view text) {
  return std::string(column - std::min(column, text.size()), ' ') + std::string(text);
}

std::string counted(double count, const std::string& what) {
  return count_text(count) + " " + what + (count == 1 ? "" : "s");
}

}  // namespace

event_table::event_table(std::string title, const sample_clock& clock, std::size_t block)
    : title_(std::move(title)), clock_(clock), block_(std::max<std::size_t>(block, 1)) {}

void event_table::add(std::span<const float> frame) {
  const std::size_t row_numbers = 2 * block_;
  rows_ = std::max(rows_, frame.size() / row_numbers);
  for (std::size_t row = 0; (row + 1) * row_numbers <= frame.size(); ++row) {
    const auto numbers = frame.subspan(row * row_numbers, row_numbers);
    const auto listed = static_cast<std::size_t>(std::clamp(numbers[1], 0.0F, static_cast<float>(block_ - 1)));
    found_ += numbers[0];
    listed_ += static_cast<double>(listed);
    for (std::size_t each = 1; each <= listed; ++each) {
      latest_.push_back({frames_, row, numbers[2 * each], numbers[2 * each + 1]});
    }
    while (latest_.size() > most_events) {
      latest_.pop_front();
    }
  }
  ++frames_;
}

std::string event_table::line_of(const event& what) const {
  std::string text = right(count_text(static_cast<double>(what.frame)));
  if (clock_.rate) {
    const double begin = static_cast<double>(what.frame) * static_cast<double>(clock_.frame_samples) / *clock_.rate;
    text += right(number_text(begin) + " s");
  }
  text += rows_ > 1 ? right(std::to_string(what.row)) : "";
  return text + right(count_text(static_cast<double>(what.index))) + right(number_text(static_cast<double>(what.peak)));
}

std::string event_table::draw(const terminal& where, int rows) const {
  const std::string left_out = found_ > listed_ ? ", " + count_text(found_ - listed_) + " of them not listed" : "";
  std::string text = strong(where.colors, title_) +
                     faint(where.colors, "  " + counted(found_, "event") + " in " +
                                             counted(static_cast<double>(frames_), clock_.unit) + left_out) +
                     "\n";
  if (latest_.empty()) {
    return text;
  }
  const auto width = static_cast<std::size_t>(std::max(where.columns, 1));
  const std::string head = right(clock_.unit) + (clock_.rate ? right("begins at") : "") +
                           (rows_ > 1 ? right("of its rows") : "") + right("index") + right("peak");
  text += faint(where.colors, head.substr(0, width)) + "\n";
  const auto shown = std::min<std::size_t>(latest_.size(), static_cast<std::size_t>(std::max(rows - 2, 1)));
  for (auto each = latest_.end() - static_cast<std::ptrdiff_t>(shown); each != latest_.end(); ++each) {
    text += line_of(*each).substr(0, width) + "\n";
  }
  return text;
}

}  // namespace penstock::cli

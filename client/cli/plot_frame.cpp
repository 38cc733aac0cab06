#include "client/cli/plot_frame.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace penstock::cli {
namespace {

constexpr int rows_below = 2;
constexpr int rows_a_label = 3;
constexpr int cells_a_label = 12;

}  // namespace

plot_frame::plot_frame(const terminal& where, int rows, const axis& left, const axis& below, std::string note)
    : where_(where), below_(below), note_(std::move(note)), height_(std::max(rows - rows_below, 1)), width_(1) {
  labels_.resize(static_cast<std::size_t>(height_));
  for (const tick& each : left.ticks(std::max(height_ / rows_a_label, 2))) {
    const auto from_top = std::lround((1 - each.position) * (height_ - 1));
    labels_[static_cast<std::size_t>(from_top)] = each.label;
    label_width_ = std::max(label_width_, static_cast<int>(each.label.size()));
  }
  width_ = std::max(where_.columns - 1 - indent(), 1);
}

std::string plot_frame::labels_below() const {
  std::string text(static_cast<std::size_t>(indent()), ' ');
  const std::size_t room = text.size() + static_cast<std::size_t>(width_);
  for (const tick& each : below_.ticks(std::max(width_ / cells_a_label, 2))) {
    const auto place = static_cast<std::size_t>(indent() + std::lround(each.position * (width_ - 1)));
    const bool overlaps = place < text.size() && text.size() > static_cast<std::size_t>(indent());
    if (overlaps || place + each.label.size() > room) {
      continue;
    }
    text.resize(place, ' ');
    text += each.label + " ";
  }
  if (!note_.empty() && text.size() + note_.size() < room) {
    text += " " + note_;
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

std::string plot_frame::draw(const std::function<std::string(int)>& row_text) const {
  const bool lines = where_.colors != color_depth::none;
  std::string text;
  for (int row = 0; row < height_; ++row) {
    const std::string& label = labels_[static_cast<std::size_t>(row)];
    const std::string edge = label.empty() ? (lines ? "│" : "|") : (lines ? "┤" : "+");
    const auto gap = static_cast<std::size_t>(label_width_) - label.size();
    text += faint(where_.colors, std::string(gap, ' ') + label + " " + edge) + row_text(row) + "\n";
  }
  std::string floor = std::string(static_cast<std::size_t>(label_width_), ' ') + (lines ? " └" : " +");
  for (int cell = 0; cell < width_; ++cell) {
    floor += lines ? "─" : "-";
  }
  return text + faint(where_.colors, floor) + "\n" + faint(where_.colors, labels_below()) + "\n";
}

}  // namespace penstock::cli

#include "client/cli/plot.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <string_view>
#include <utility>

#include "base/quantity.hpp"

namespace penstock::cli {
namespace {

struct prefix {
  double scale = 1;
  std::string_view letter;
};

prefix prefix_for(double size) {
  constexpr std::array<prefix, 6> prefixes{{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}, {1, ""}, {1e-3, "m"}, {1e-6, "u"}}};
  const auto* const fits =
      std::find_if(prefixes.begin(), prefixes.end(), [size](const prefix& each) { return size >= each.scale; });
  return fits == prefixes.end() ? prefix{} : *fits;
}

/// The smallest of 1, 2, 5 times a power of ten that is at least `least`.
double round_step(double least) {
  const double decade = std::pow(10.0, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * decade >= least * (1 - 1e-9)) {
      return factor * decade;
    }
  }
  return 10 * decade;
}

std::string label_of(double value, double step, const prefix& in, std::string_view unit) {
  const int decimals = std::clamp(static_cast<int>(-std::floor(std::log10(step / in.scale) + 1e-9)), 0, 6);
  std::array<char, 48> text{};
  const double shown = std::abs(value) < step / 1000 ? 0.0 : value / in.scale;
  const int length = std::snprintf(text.data(), text.size(), "%.*f", decimals, shown);
  std::string label{text.data(), static_cast<std::size_t>(std::max(length, 0))};
  if (!unit.empty()) {
    label.append(" ").append(in.letter).append(unit);
  }
  return label;
}

}  // namespace

std::vector<tick> axis::ticks(int at_most) const {
  const double span = high - low;
  if (!(span > 0) || !std::isfinite(span) || at_most < 1) {
    return {};
  }
  double step = round_step(span / at_most);
  double first = std::ceil(low / step - 1e-9) * step;
  while (std::floor((high - first) / step + 1e-9) + 1 > at_most) {  // both ends may have a tick
    step = round_step(step * 1.01);
    first = std::ceil(low / step - 1e-9) * step;
  }
  const double size = std::max(std::abs(low), std::abs(high));
  const bool whole_seconds = unit == "s" && size >= 1;  // no kiloseconds
  const prefix in = prefixed && !whole_seconds ? prefix_for(size) : prefix{1, ""};
  std::vector<tick> all;
  for (double value = first; value <= high + step * 1e-9; value += step) {
    all.push_back({std::clamp((value - low) / span, 0.0, 1.0), label_of(value, step, in, unit)});
  }
  return all;
}

namespace {

constexpr int rows_below = 2;
constexpr int rows_a_label = 3;
constexpr int cells_a_label = 12;

}  // namespace

plot_frame::plot_frame(const terminal& screen, int rows, const axis& left, const axis& below, std::string note)
    : where_(screen), below_(below), note_(std::move(note)), height_(std::max(rows - rows_below, 1)), width_(1) {
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

namespace {

constexpr std::array<rgb, 9> stops{{{4, 4, 16},
                                    {32, 14, 72},
                                    {76, 18, 108},
                                    {122, 30, 110},
                                    {172, 46, 92},
                                    {214, 72, 60},
                                    {242, 120, 28},
                                    {252, 180, 40},
                                    {254, 246, 176}}};
constexpr std::string_view shades = " .:-=+*#%@";

double bounded(double level) {
  return std::isfinite(level) ? std::clamp(level, 0.0, 1.0) : 0.0;
}

}  // namespace

rgb heat_color(double level) noexcept {
  const double place = bounded(level) * static_cast<double>(stops.size() - 1);
  const auto before = std::min(static_cast<std::size_t>(place), stops.size() - 2);
  const double share = place - static_cast<double>(before);
  const auto mix = [share](std::uint8_t first, std::uint8_t second) {
    return static_cast<std::uint8_t>(std::lround(first + share * (second - first)));
  };
  const rgb& first = stops[before];
  const rgb& second = stops[before + 1];
  return {mix(first.red, second.red), mix(first.green, second.green), mix(first.blue, second.blue)};
}

char heat_shade(double level) noexcept {
  const auto most = shades.size() - 1;
  return shades[std::min(static_cast<std::size_t>(bounded(level) * static_cast<double>(shades.size())), most)];
}

std::size_t heat_grid::rows_in(int lines, const terminal& screen) noexcept {
  return static_cast<std::size_t>(screen.colors == color_depth::none ? lines : 2 * lines);
}

double heat_grid::level(std::size_t row, std::size_t column) const {
  return (values[row * columns + column] - low) / (high - low);
}

std::string heat_grid::line(const terminal& screen, int number) const {
  std::string text;
  const auto at = static_cast<std::size_t>(number);
  for (std::size_t column = 0; column < columns; ++column) {
    if (screen.colors == color_depth::none) {
      text += heat_shade(level(at, column));
    } else {
      text += foreground(screen.colors, heat_color(level(2 * at, column))) +
              background(screen.colors, heat_color(level(2 * at + 1, column))) + "▀";
    }
  }
  return text + plain(screen.colors);
}

std::string heat_grid::legend(const terminal& screen, int indent, const std::string& unit) const {
  constexpr int cells = 24;
  std::string text(static_cast<std::size_t>(indent), ' ');
  text += number_text(low) + unit + " ";
  for (int each = 0; each < cells; ++each) {
    const double level = (each + 0.5) / cells;
    text += screen.colors == color_depth::none ? std::string(1, heat_shade(level))
                                               : background(screen.colors, heat_color(level)) + " ";
  }
  return text + plain(screen.colors) + " " + number_text(high) + unit + "\n";
}

namespace {

void merge(series::bucket& total, const series::bucket& other) {
  if (other.count == 0) {
    return;
  }
  total.low = total.count == 0 ? other.low : std::min(total.low, other.low);
  total.high = total.count == 0 ? other.high : std::max(total.high, other.high);
  total.sum += other.sum;
  total.count += other.count;
}

}  // namespace

void series::add(double number) {
  if (buckets_.empty() || in_last_ == stride_) {
    if (buckets_.size() == most_buckets_) {
      halve();
    } else {
      in_last_ = 0;
    }
    if (in_last_ == 0) {
      buckets_.emplace_back();
    }
  }
  ++in_last_;
  ++size_;
  if (std::isfinite(number)) {
    const bucket one{number, number, number, 1};
    merge(buckets_.back(), one);
    merge(whole_, one);
  }
}

void series::halve() {
  std::vector<bucket> halved;
  halved.reserve(most_buckets_);
  for (std::size_t at = 0; at < buckets_.size(); at += 2) {
    halved.push_back(buckets_[at]);
    if (at + 1 < buckets_.size()) {
      merge(halved.back(), buckets_[at + 1]);
    }
  }
  const bool last_is_half = buckets_.size() % 2 == 1;
  in_last_ = last_is_half ? stride_ : 0;
  stride_ *= 2;
  buckets_ = std::move(halved);
}

std::vector<series::bucket> series::cut(std::size_t count) const {
  std::vector<bucket> parts(count);
  if (buckets_.empty()) {
    return parts;
  }
  for (std::size_t part = 0; part < count; ++part) {
    const std::size_t first = part * buckets_.size() / count;
    const std::size_t end = std::max((part + 1) * buckets_.size() / count, first + 1);
    for (std::size_t at = first; at < end; ++at) {
      merge(parts[part], buckets_[at]);
    }
  }
  return parts;
}

}  // namespace penstock::cli

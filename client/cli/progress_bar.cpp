#include "client/cli/progress_bar.hpp"

#include <algorithm>
#include <array>

#include "client/cli/quantity.hpp"

namespace penstock::cli {
namespace {

constexpr std::chrono::milliseconds interval{100};
constexpr int bar_cells = 24;

/// A bar of eighths of a cell.
std::string bar(double share, color_depth colors) {
  constexpr std::array<std::string_view, 8> eighths{" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int filled = static_cast<int>(std::clamp(share, 0.0, 1.0) * bar_cells * 8);
  std::string text;
  for (int cell = 0; cell < bar_cells; ++cell) {
    const int here = std::clamp(filled - 8 * cell, 0, 8);
    if (colors == color_depth::none) {
      text += here >= 4 ? '#' : '.';
    } else {
      text += here == 8 ? std::string_view{"█"} : eighths[static_cast<std::size_t>(here)];
    }
  }
  return colors == color_depth::none
             ? text
             : foreground(colors, {92, 200, 255}) + background(colors, {38, 44, 58}) + text + plain(colors);
}

}  // namespace

progress_bar::progress_bar(std::ostream& out, const terminal& where, std::optional<std::uint64_t> total_bytes)
    : out_(out), where_(where), total_bytes_(total_bytes) {}

std::string progress_bar::line(const progress& now) const {
  const double seconds = std::max(std::chrono::duration<double>(now.elapsed).count(), 1e-9);
  std::string figures = count_text(static_cast<double>(now.frames)) + " frames  " +
                        bytes_text(static_cast<double>(now.bytes) / seconds) + "/s  " + std::to_string(now.in_flight) +
                        " in flight";
  const int width = static_cast<int>(figures.size());
  std::string text;
  if (total_bytes_ && *total_bytes_ > 0 && where_.columns > width + bar_cells + 9) {
    const double share = std::min(static_cast<double>(now.bytes) / static_cast<double>(*total_bytes_), 1.0);
    const std::string percent = std::to_string(static_cast<int>(share * 100)) + " %";
    text = "  " + bar(share, where_.colors) + std::string(6 - std::min<std::size_t>(percent.size(), 6), ' ') + percent;
  }
  const auto room = static_cast<std::size_t>(std::max(where_.columns - 3, 0));
  return text + "  " + figures.substr(0, room);
}

void progress_bar::show(const progress& now) {
  if (!where_.interactive || (last_.count() >= 0 && now.elapsed - last_ < interval)) {
    return;
  }
  last_ = now.elapsed;
  out_ << "\r\x1b[2K" << line(now) << std::flush;
}

void progress_bar::clear() {
  if (where_.interactive && last_.count() >= 0) {
    out_ << "\r\x1b[2K" << std::flush;
  }
}

}  // namespace penstock::cli

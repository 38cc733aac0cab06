#include "client/cli/terminal.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>

#include <sys/ioctl.h>
#include <unistd.h>

#include "base/quantity.hpp"

namespace penstock::cli {
namespace {

/// The nearest of the 6 × 6 × 6 cube of the 256 colours.
int cube_index(rgb color) {
  const auto level = [](int part) { return part < 48 ? 0 : part < 115 ? 1 : (part - 35) / 40; };
  return 16 + 36 * level(color.red) + 6 * level(color.green) + level(color.blue);
}

std::string color_sequence(color_depth depth, rgb color, std::string_view layer) {
  if (depth == color_depth::none) {
    return {};
  }
  std::string sequence = "\x1b[" + std::string(layer);
  if (depth == color_depth::indexed) {
    return sequence + ";5;" + std::to_string(cube_index(color)) + "m";
  }
  return sequence + ";2;" + std::to_string(color.red) + ";" + std::to_string(color.green) + ";" +
         std::to_string(color.blue) + "m";
}

std::string wrapped(color_depth depth, std::string_view sequence, std::string_view text) {
  return depth == color_depth::none ? std::string(text) : std::string(sequence) + std::string(text) + plain(depth);
}

}  // namespace

terminal terminal_at(int descriptor) {
  terminal found;
  found.interactive = ::isatty(descriptor) == 1;
  winsize size{};
  if (found.interactive && ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
    found.columns = size.ws_col;
    found.rows = size.ws_row;
  }
  found.colors = colors_of(found.interactive, std::getenv("NO_COLOR"), std::getenv("COLORTERM"), std::getenv("TERM"));
  return found;
}

color_depth colors_of(bool interactive, const char* no_color, const char* color_term, const char* term) {
  const auto text = [](const char* value) { return value == nullptr ? std::string_view{} : std::string_view{value}; };
  if (!interactive || !text(no_color).empty()) {
    return color_depth::none;
  }
  if (text(color_term) == "truecolor" || text(color_term) == "24bit") {
    return color_depth::full;
  }
  const bool few = text(term).empty() || text(term) == "dumb" || text(term) == "linux" || text(term).starts_with("vt");
  return few ? color_depth::none : color_depth::indexed;
}

std::string foreground(color_depth depth, rgb color) {
  return color_sequence(depth, color, "38");
}
std::string background(color_depth depth, rgb color) {
  return color_sequence(depth, color, "48");
}
std::string plain(color_depth depth) {
  return depth == color_depth::none ? "" : "\x1b[0m";
}
std::string strong(color_depth depth, std::string_view text) {
  return wrapped(depth, "\x1b[1m", text);
}
std::string faint(color_depth depth, std::string_view text) {
  return wrapped(depth, "\x1b[2m", text);
}

namespace {

constexpr std::chrono::milliseconds interval{100};
constexpr int progress_cells = 24;

/// A bar of eighths of a cell.
std::string bar(double share, color_depth colors) {
  constexpr std::array<std::string_view, 8> eighths{" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int filled = static_cast<int>(std::clamp(share, 0.0, 1.0) * progress_cells * 8);
  std::string text;
  for (int cell = 0; cell < progress_cells; ++cell) {
    const int fill = std::clamp(filled - 8 * cell, 0, 8);
    if (colors == color_depth::none) {
      text += fill >= 4 ? '#' : '.';
    } else {
      text += fill == 8 ? std::string_view{"█"} : eighths[static_cast<std::size_t>(fill)];
    }
  }
  return colors == color_depth::none
             ? text
             : foreground(colors, {92, 200, 255}) + background(colors, {38, 44, 58}) + text + plain(colors);
}

}  // namespace

progress_bar::progress_bar(std::ostream& out, const terminal& screen, std::optional<std::uint64_t> total_bytes)
    : out_(out), where_(screen), total_bytes_(total_bytes) {}

std::string progress_bar::line(const progress& now) const {
  const double seconds = std::max(std::chrono::duration<double>(now.elapsed).count(), 1e-9);
  std::string figures = count_text(static_cast<double>(now.frames)) + " frames  " +
                        bytes_text(static_cast<double>(now.bytes) / seconds) + "/s  " + std::to_string(now.in_flight) +
                        " in flight";
  const int width = static_cast<int>(figures.size());
  std::string text;
  if (total_bytes_ && *total_bytes_ > 0 && where_.columns > width + progress_cells + 9) {
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

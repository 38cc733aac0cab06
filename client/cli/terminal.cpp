#include "client/cli/terminal.hpp"

#include <cstdlib>

#include <sys/ioctl.h>
#include <unistd.h>

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

}  // namespace penstock::cli

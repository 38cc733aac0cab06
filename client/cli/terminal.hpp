#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace penstock::cli {

/// How a picture may be drawn: shades of ASCII, the 256 colours, or any colour.
enum class color_depth : std::uint8_t { none, indexed, full };

struct terminal {
  bool interactive = false;  ///< someone looks at it: progress may be shown
  int columns = 80;
  int rows = 24;
  color_depth colors = color_depth::none;
};

struct rgb {
  std::uint8_t red = 0;
  std::uint8_t green = 0;
  std::uint8_t blue = 0;

  bool operator==(const rgb&) const = default;
};

/// The terminal behind a file descriptor; what a file or a pipe gets is 80 × 24 and without colours. NO_COLOR,
/// COLORTERM and TERM are obeyed.
[[nodiscard]] terminal terminal_at(int descriptor);
/// What the environment says of colours. nullptr stands for an unset variable.
[[nodiscard]] color_depth colors_of(bool interactive, const char* no_color, const char* color_term, const char* term);

/// The sequences that switch to a colour, and back to the terminal's own; "" without colours.
[[nodiscard]] std::string foreground(color_depth depth, rgb color);
[[nodiscard]] std::string background(color_depth depth, rgb color);
[[nodiscard]] std::string plain(color_depth depth);
/// Text in bold, and text that steps back; as it is without colours.
[[nodiscard]] std::string strong(color_depth depth, std::string_view text);
[[nodiscard]] std::string faint(color_depth depth, std::string_view text);

}  // namespace penstock::cli

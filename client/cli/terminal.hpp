#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>

namespace penstock::cli {

/// Colors of the terminal: none (ASCII shades), 256 indexed, or 24-bit.
enum class color_depth : std::uint8_t { none, indexed, full };

struct terminal {
  bool interactive = false;  ///< a person may be watching: progress is shown
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

/// The terminal of a file descriptor; 80 × 24 without colors for a file or a pipe. Honours NO_COLOR, COLORTERM and
/// TERM.
[[nodiscard]] terminal terminal_at(int descriptor);
/// Color depth by environment variables; nullptr = unset.
[[nodiscard]] color_depth colors_of(bool interactive, const char* no_color, const char* color_term, const char* term);

/// Escape sequences that set a color, or reset it; "" without colors.
[[nodiscard]] std::string foreground(color_depth depth, rgb color);
[[nodiscard]] std::string background(color_depth depth, rgb color);
[[nodiscard]] std::string plain(color_depth depth);
/// Bold and dim text; unchanged without colors.
[[nodiscard]] std::string strong(color_depth depth, std::string_view text);
[[nodiscard]] std::string faint(color_depth depth, std::string_view text);

/// Progress of a stream of frames.
struct progress {
  std::uint64_t frames = 0;
  std::uint64_t bytes = 0;
  std::uint64_t in_flight = 0;
  std::chrono::nanoseconds elapsed{};
};

/// A progress line that redraws itself; silent when not interactive. Not thread-safe.
class progress_bar {
 public:
  /// `total_bytes`: nullopt for a stream of unknown length.
  progress_bar(std::ostream& out, const terminal& screen, std::optional<std::uint64_t> total_bytes);

  /// Draws, at most ten times a second.
  void show(const progress& now);
  /// Erases the line.
  void clear();

  /// The line's text, not wider than the terminal.
  [[nodiscard]] std::string line(const progress& now) const;

 private:
  std::ostream& out_;
  terminal where_;
  std::optional<std::uint64_t> total_bytes_;
  std::chrono::nanoseconds last_{-1};
};

}  // namespace penstock::cli

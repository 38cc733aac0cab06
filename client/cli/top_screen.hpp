#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "client/cli/top_layout.hpp"

namespace penstock::cli {

enum class top_key : std::uint8_t {
  none,
  quit,
  sort,
  pause,
  help,
  next,
  shards,
  streams,
  pipelines,
  clients,
  sources,
  sinks,
  resized
};

/// True when the terminal named by TERM can position its cursor. False for an unknown terminal.
[[nodiscard]] bool can_show_a_screen();
/// Bar glyphs by locale and TERM. Call it after setlocale.
[[nodiscard]] bar_glyphs glyphs_of_terminal();

/// The terminal in ncurses' full-screen mode; the destructor restores it. One at a time.
class top_screen {
 public:
  /// Uses colors unless NO_COLOR is set or the terminal has none. Throws std::runtime_error when the terminal can't be
  /// used.
  top_screen();
  top_screen(const top_screen&) = delete;
  top_screen& operator=(const top_screen&) = delete;
  ~top_screen();

  [[nodiscard]] int columns() const;
  [[nodiscard]] int rows() const;
  void show(const std::vector<top_line>& lines);
  /// The next key; `none` after `patience` without one.
  [[nodiscard]] top_key wait_for_key(std::chrono::milliseconds patience);

 private:
  void* screen_;
  bool colors_ = false;
};

}  // namespace penstock::cli

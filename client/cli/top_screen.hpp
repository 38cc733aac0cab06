#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "client/cli/top_line.hpp"

namespace penstock::cli {

enum class top_key : std::uint8_t { none, quit, sort, pause, help, next, shards, streams, pipelines, clients, resized };

/// Whether the terminal of TERM can place its cursor, as a screen needs. False also for an unknown one.
[[nodiscard]] bool can_show_a_screen();
/// What bars can be made of, by the locale and TERM. After setlocale.
[[nodiscard]] bar_glyphs glyphs_of_terminal();

/// The whole terminal, through ncurses; it is as it was before when this is destroyed. One at a time.
class top_screen {
 public:
  /// Colours only where NO_COLOR is not set and the terminal has them. Throws std::runtime_error when the terminal
  /// can't be used.
  top_screen();
  top_screen(const top_screen&) = delete;
  top_screen& operator=(const top_screen&) = delete;
  ~top_screen();

  [[nodiscard]] int columns() const;
  [[nodiscard]] int rows() const;
  void show(const std::vector<top_line>& lines);
  /// The next key, `none` when there was none within `patience`.
  [[nodiscard]] top_key wait_for_key(std::chrono::milliseconds patience);

 private:
  void* screen_;
  bool colors_ = false;
};

}  // namespace penstock::cli

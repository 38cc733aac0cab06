#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/cli/top_figures.hpp"

namespace penstock::cli {

/// The role of a text, which determines its color and attributes.
enum class text_role : std::uint8_t {
  plain,
  strong,
  faint,
  heading,
  chosen,
  good,
  warning,
  bad,
  copy_in,
  compute,
  copy_out
};

/// Glyphs of bars: '#', half blocks (for the Linux console), or eighths of a block.
enum class bar_glyphs : std::uint8_t { ascii, halves, eighths };

struct text_piece {
  std::string text;
  text_role role = text_role::plain;
};

/// One line of the view, built from left to right and cut at its width. Each code point takes one cell.
class top_line {
 public:
  explicit top_line(int width) : allocator_(width) {}

  top_line& add(std::string_view text, text_role role = text_role::plain);
  /// Exactly `cells` cells, cut or padded with spaces.
  top_line& left(std::string_view text, int cells, text_role role = text_role::plain);
  top_line& right(std::string_view text, int cells, text_role role = text_role::plain);
  /// Pads up to this column.
  top_line& to_column(int column);
  /// A bar of `cells` cells, filled by `part` (0 … 1).
  top_line& bar(double part, int cells, bar_glyphs glyphs, text_role role);
  /// Right-aligned text at the end, if there is room for it and a space.
  top_line& at_end(std::string_view text, text_role role = text_role::plain);

  [[nodiscard]] const std::vector<text_piece>& pieces() const noexcept { return pieces_; }
  [[nodiscard]] int room() const noexcept { return allocator_; }
  /// Plain text without trailing spaces.
  [[nodiscard]] std::string text() const;

 private:
  int allocator_;
  int used_ = 0;
  std::vector<text_piece> pieces_;
};

/// Width in cells.
[[nodiscard]] int cells_of(std::string_view text) noexcept;
/// A peer's name made safe for the terminal: characters other than Latin letters and printable ASCII become '?'.
[[nodiscard]] std::string shown_name(std::string_view name, bool ascii);

enum class top_section : std::uint8_t { shards, streams, pipelines, clients, sources, sinks };
/// Sources and sinks are left out while there are none.
inline constexpr std::size_t top_sections = 6;

/// The user's choices, and messages beside the figures.
struct top_view {
  int columns = 80;
  int rows = 0;  ///< 0: unlimited, and without the line of keys
  bar_glyphs glyphs = bar_glyphs::ascii;
  top_section chosen = top_section::pipelines;  ///< the section that gets free rows
  top_order order = top_order::busy;
  bool paused = false;
  bool help = false;
  std::string address{};  ///< the queried address
  std::string trouble{};  ///< why there is no answer; "" = none
};

/// The view: at most `rows` lines of at most `columns` cells. `figures` must be sorted; nullopt before the first
/// answer.
[[nodiscard]] std::vector<top_line> lay_out(const std::optional<top_figures>& figures, const top_view& view);

/// Distributes `room` rows over the sections: first one row each, then the chosen section's wish, then the others in
/// turn.
[[nodiscard]] std::array<int, top_sections> share_rows(const std::array<int, top_sections>& wanted, int room,
                                                       top_section chosen);

/// "3d 04h", "2h 05m", "4m 07s", "12 s".
[[nodiscard]] std::string uptime_text(double seconds);
/// At most five characters: "0", "3.21", "987", "12.3k", "4.56M".
[[nodiscard]] std::string short_count(double count);

/// One section of the view: column names and all of its rows.
struct section_lines {
  top_line columns{0};    ///< starts behind the section's name
  std::size_t items = 0;  ///< number of shards, streams, pipelines or clients
  std::size_t per_row = 1;
  std::vector<top_line> rows;
};

[[nodiscard]] std::array<section_lines, top_sections> lay_out_sections(const top_figures& figures,
                                                                       const top_view& view);
/// The heading of a section of which `rows` rows are shown: number, name, how many are shown if not all, column names.
[[nodiscard]] top_line section_heading(top_section section, const section_lines& lines, int rows, const top_view& view);

}  // namespace penstock::cli

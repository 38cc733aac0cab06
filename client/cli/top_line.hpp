#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::cli {

/// What a piece of text is, for a screen that can show it in more ways than one.
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

/// How bars are drawn: '#', whole and half blocks (the Linux console has no others), or eighths of a block.
enum class bar_glyphs : std::uint8_t { ascii, halves, eighths };

struct text_piece {
  std::string text;
  text_role role = text_role::plain;
};

/// One line of the view, built from left to right, never wider than it was made for: what is beyond that is cut. Each
/// code point takes one cell.
class top_line {
 public:
  explicit top_line(int width) : room_(width) {}

  top_line& add(std::string_view text, text_role role = text_role::plain);
  /// In exactly so many cells, cut or filled up with spaces.
  top_line& left(std::string_view text, int cells, text_role role = text_role::plain);
  top_line& right(std::string_view text, int cells, text_role role = text_role::plain);
  /// Spaces up to this column.
  top_line& to_column(int column);
  /// A bar of so many cells, `part` (0 … 1) of it filled.
  top_line& bar(double part, int cells, bar_glyphs glyphs, text_role role);
  /// Ends the line with this text at the right edge, where there is room for it and a space.
  top_line& at_end(std::string_view text, text_role role = text_role::plain);

  [[nodiscard]] const std::vector<text_piece>& pieces() const noexcept { return pieces_; }
  [[nodiscard]] int room() const noexcept { return room_; }
  /// Without the roles, and without spaces at the end.
  [[nodiscard]] std::string text() const;

 private:
  int room_;
  int used_ = 0;
  std::vector<text_piece> pieces_;
};

/// How many cells it takes.
[[nodiscard]] int cells_of(std::string_view text) noexcept;
/// What a peer called itself, fit to be shown: Latin letters and printable ASCII stay, anything else becomes '?'.
[[nodiscard]] std::string shown_name(std::string_view name, bool ascii);

}  // namespace penstock::cli

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/cli/top_figures.hpp"
#include "client/cli/top_line.hpp"

namespace penstock::cli {

enum class top_section : std::uint8_t { shards, streams, pipelines, clients };
inline constexpr std::size_t top_sections = 4;

/// What the user chose, and what is to be said beside the figures.
struct top_view {
  int columns = 80;
  int rows = 0;  ///< 0: as many as it takes, without the line of keys at the end
  bar_glyphs glyphs = bar_glyphs::ascii;
  top_section chosen = top_section::pipelines;  ///< that gets the room
  top_order order = top_order::busy;
  bool paused = false;
  bool help = false;
  std::string where{};    ///< the address that was asked
  std::string trouble{};  ///< why there is no answer just now; "" while there is one
};

/// The view as lines of at most `columns` cells, at most `rows` of them. `figures` are sorted, and unset as long as
/// there was no answer. Pure.
[[nodiscard]] std::vector<top_line> lay_out(const std::optional<top_figures>& figures, const top_view& view);

/// How many rows each section gets of `room`, by how many it wants: none is left out while there is room for a row of
/// each, then the chosen one is served, then the others in turn.
[[nodiscard]] std::array<int, top_sections> share_rows(const std::array<int, top_sections>& wanted, int room,
                                                       top_section chosen);

/// "3d 04h", "2h 05m", "4m 07s", "12 s".
[[nodiscard]] std::string uptime_text(double seconds);
/// At most five places: "0", "3.21", "987", "12.3k", "4.56M".
[[nodiscard]] std::string short_count(double count);

}  // namespace penstock::cli

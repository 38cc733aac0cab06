#include "client/cli/top_line.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace penstock::cli {
namespace {

bool continues(char byte) noexcept {
  return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

/// The first `cells` code points.
std::string_view first_cells(std::string_view text, int cells) noexcept {
  std::size_t at = 0;
  while (at < text.size() && cells > 0) {
    ++at;
    while (at < text.size() && continues(text[at])) {
      ++at;
    }
    --cells;
  }
  return text.substr(0, at);
}

/// Two bytes that are a letter of Latin-1 or Latin Extended (U+00C0 to U+024F).
bool is_latin(char lead, char next) noexcept {
  const auto first = static_cast<unsigned char>(lead);
  const auto code = ((first & 0x1FU) << 6U) | (static_cast<unsigned char>(next) & 0x3FU);
  return (first & 0xE0U) == 0xC0U && continues(next) && code >= 0xC0U && code <= 0x24FU;
}

}  // namespace

int cells_of(std::string_view text) noexcept {
  return static_cast<int>(std::count_if(text.begin(), text.end(), [](char byte) { return !continues(byte); }));
}

std::string shown_name(std::string_view name, bool ascii) {
  std::string shown;
  for (std::size_t at = 0; at < name.size();) {
    if (name[at] >= 0x20 && name[at] < 0x7F) {
      shown += name[at++];
    } else if (!ascii && at + 1 < name.size() && is_latin(name[at], name[at + 1])) {
      shown += name.substr(at, 2);
      at += 2;
    } else {
      shown += '?';
      do {
        ++at;
      } while (at < name.size() && continues(name[at]));
    }
  }
  return shown;
}

top_line& top_line::add(std::string_view text, text_role role) {
  const std::string_view fits = first_cells(text, room_ - used_);
  if (!fits.empty()) {
    used_ += cells_of(fits);
    pieces_.push_back({std::string(fits), role});
  }
  return *this;
}

top_line& top_line::left(std::string_view text, int cells, text_role role) {
  const std::string_view fits = first_cells(text, cells);
  add(fits, role);
  return add(std::string(static_cast<std::size_t>(std::max(cells - cells_of(fits), 0)), ' '));
}

top_line& top_line::right(std::string_view text, int cells, text_role role) {
  const std::string_view fits = first_cells(text, cells);
  add(std::string(static_cast<std::size_t>(std::max(cells - cells_of(fits), 0)), ' '));
  return add(fits, role);
}

top_line& top_line::to_column(int column) {
  return add(std::string(static_cast<std::size_t>(std::max(column - used_, 0)), ' '));
}

top_line& top_line::bar(double part, int cells, bar_glyphs glyphs, text_role role) {
  constexpr std::array<std::string_view, 9> parts{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"};
  const double bounded = std::isfinite(part) ? std::clamp(part, 0.0, 1.0) : 0.0;
  // What is not 0 is seen.
  const int eighths = std::max(static_cast<int>(std::lround(bounded * cells * 8)), bounded > 0 ? 1 : 0);
  int cell = 0;
  std::string filled;
  for (; cell < cells; ++cell) {
    int here = std::clamp(eighths - 8 * cell, 0, 8);
    if (glyphs != bar_glyphs::eighths) {
      here = here == 0 ? 0 : glyphs == bar_glyphs::halves && here <= 4 ? 4 : 8;
    }
    if (here == 0) {
      break;
    }
    filled += glyphs == bar_glyphs::ascii ? std::string_view{"#"} : parts[static_cast<std::size_t>(here)];
  }
  add(filled, role);
  std::string rest;
  for (; cell < cells; ++cell) {
    rest += glyphs == bar_glyphs::ascii ? "." : "·";
  }
  return add(rest, text_role::faint);
}

top_line& top_line::at_end(std::string_view text, text_role role) {
  const int cells = cells_of(text);
  return room_ - used_ > cells ? to_column(room_ - cells).add(text, role) : *this;
}

std::string top_line::text() const {
  std::string all;
  for (const text_piece& each : pieces_) {
    all += each.text;
  }
  all.erase(all.find_last_not_of(' ') + 1);
  return all;
}

}  // namespace penstock::cli

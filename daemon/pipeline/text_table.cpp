#include "daemon/pipeline/text_table.hpp"

#include <algorithm>

namespace penstock {
namespace {

constexpr std::string_view rule = "─";
constexpr std::string_view gap = "  ";

std::size_t places(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U; }));
}

void end_line(std::string& out) {
  out.erase(out.find_last_not_of(' ') + 1);
  out += '\n';
}

}  // namespace

/// 0 for a index that is left out.
std::vector<std::size_t> text_table::widths() const {
  std::vector<std::size_t> widths(columns_.size(), 0);
  for (std::size_t index = 0; index < columns_.size(); ++index) {
    for (const auto& cells : rows_) {
      widths[index] = std::max(widths[index], places(cells[index]));
    }
    if (widths[index] != 0) {
      widths[index] = std::max(widths[index], places(columns_[index].heading));
    }
  }
  return widths;
}

std::string text_table::text(std::string_view indent) const {
  const std::vector<std::size_t> wide = widths();
  std::string out;
  const auto add_line = [&](const auto& cell_of) {
    out += indent;
    std::string_view separator;
    for (std::size_t index = 0; index < columns_.size(); ++index) {
      if (wide[index] == 0) {
        continue;
      }
      const std::string cell = cell_of(index);
      const std::string padding(wide[index] - places(cell), ' ');
      out += separator;
      out += columns_[index].right ? padding + cell : cell + padding;
      separator = gap;
    }
    end_line(out);
  };
  add_line([&](std::size_t index) { return columns_[index].heading; });
  add_line([&](std::size_t index) {
    std::string line;
    for (std::size_t place = 0; place < wide[index]; ++place) {
      line += rule;
    }
    return line;
  });
  for (const auto& cells : rows_) {
    add_line([&](std::size_t index) { return cells[index]; });
  }
  return out;
}

}  // namespace penstock

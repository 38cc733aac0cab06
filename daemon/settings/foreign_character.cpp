#include "daemon/settings/foreign_character.hpp"

#include <algorithm>

namespace penstock {
namespace {

/// Of the text after an opening quote, what follows the closing one; nothing when it is not closed.
std::string_view after_string(std::string_view rest, char quote) {
  for (std::size_t at = 0; at < rest.size(); ++at) {
    if (rest[at] == quote) {
      return rest.substr(at + 1);
    }
    if (rest[at] == '\\' && quote == '"') {
      ++at;
    }
  }
  return {};
}

bool is_foreign(std::string_view line) {
  while (!line.empty() && line.front() != '#') {
    const char letter = line.front();
    line.remove_prefix(1);
    if (letter == '"' || letter == '\'') {
      line = after_string(line, letter);
    } else if ((static_cast<unsigned char>(letter) & 0x80U) != 0) {
      return true;
    }
  }
  return false;
}

}  // namespace

bool is_wide_text(std::string_view text) noexcept {
  return text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF") || text.substr(0, 2).find('\0') != text.npos;
}

std::optional<std::uint32_t> line_of_foreign_character(std::string_view text) noexcept {
  constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
  if (text.starts_with(byte_order_mark)) {
    text.remove_prefix(byte_order_mark.size());
  }
  for (std::uint32_t number = 1; !text.empty(); ++number) {
    const std::size_t length = std::min(text.find('\n'), text.size());
    if (is_foreign(text.substr(0, length))) {
      return number;
    }
    text.remove_prefix(std::min(length + 1, text.size()));
  }
  return std::nullopt;
}

}  // namespace penstock

#include "base/key_file.hpp"

#include <algorithm>

namespace penstock {
namespace {

constexpr std::string_view z85_letters =
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";
constexpr std::string_view blanks = " \t\r";

std::string_view trimmed(std::string_view text) noexcept {
  const std::size_t first = std::min(text.find_first_not_of(blanks), text.size());
  const std::size_t end = text.find_last_not_of(blanks) + 1;  // 0 where there is nothing else
  return text.substr(first, end - std::min(first, end));
}

}  // namespace

bool is_key_text(std::string_view text) noexcept {
  return text.size() == key_letters && text.find_first_not_of(z85_letters) == text.npos;
}

std::optional<std::string_view> take_key_line(std::string_view& text, std::size_t& number) noexcept {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (!line.empty() && line.front() != '#') {
      return line;
    }
  }
  return std::nullopt;
}

std::optional<std::string_view> only_key(std::string_view text) noexcept {
  std::size_t number = 0;
  const std::optional<std::string_view> found = take_key_line(text, number);
  return found && is_key_text(*found) && !take_key_line(text, number) ? found : std::nullopt;
}

}  // namespace penstock

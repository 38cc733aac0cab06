#include "base/printable.hpp"

#include <algorithm>

namespace penstock {
namespace {

/// Bytes of the printable character that the text begins with; 0: it begins with none.
std::size_t printable_bytes(std::string_view text) noexcept {
  const auto first = static_cast<unsigned char>(text.front());
  if (first < 0x80) {
    return first >= 0x20 && first != 0x7f ? 1 : 0;
  }
  const std::size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  const auto second = text.size() > 1 ? static_cast<unsigned char>(text[1]) : 0U;
  const auto continues = [](char each) { return (static_cast<unsigned char>(each) & 0xc0U) == 0x80; };
  // Neither longer than need be, nor a surrogate, nor beyond Unicode, nor a control character of Latin-1.
  const bool is_wrong = first < 0xc2 || first > 0xf4 || (first == 0xe0 && second < 0xa0) ||
                        (first == 0xed && second > 0x9f) || (first == 0xf0 && second < 0x90) ||
                        (first == 0xf4 && second > 0x8f) || (first == 0xc2 && second < 0xa0);
  const std::string_view rest = text.substr(0, bytes).substr(1);
  return !is_wrong && rest.size() == bytes - 1 && std::all_of(rest.begin(), rest.end(), continues) ? bytes : 0;
}

}  // namespace

std::string printable(std::string_view text, std::size_t longest) {
  std::string shown;
  while (!text.empty() && shown.size() < longest) {
    const std::size_t bytes = printable_bytes(text);
    if (bytes == 0) {
      constexpr std::string_view digits = "0123456789abcdef";
      const auto byte = static_cast<unsigned char>(text.front());
      shown.append("\\x").append({digits[byte / 16], digits[byte % 16]});
    } else {
      shown.append(text.substr(0, bytes));
    }
    text.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
  return text.empty() ? shown : shown + "…";
}

std::string printable_name(std::string_view text, std::size_t longest) {
  std::string name;
  while (!text.empty()) {
    const std::size_t bytes = printable_bytes(text);
    const std::string_view next = bytes == 0 ? "_" : text.substr(0, bytes);
    if (name.size() + next.size() > longest) {
      break;
    }
    name += next;
    text.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
  return name;
}

}  // namespace penstock

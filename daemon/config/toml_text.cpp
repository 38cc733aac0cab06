// The one place where toml++ itself is compiled: TOML_HEADER_ONLY=0 is set for the whole target.
//
// Its assertions check what the text says, "[.a]" for one, before the code that refuses it. Here they are off, and are
// no promises to the optimizer either, which is what they turn into under NDEBUG.
#undef NDEBUG
#define TOML_ASSERT(expression) static_assert(true)
#define TOML_IMPLEMENTATION
#include "daemon/config/toml_text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <sstream>

#include "base/configuration_error.hpp"

namespace penstock {
namespace {

configuration_place place_in(const std::string& file, std::uint32_t line) {
  configuration_place place;
  place.position = {file, line};
  return place;
}

/// Of the text after an opening quote, what follows the closing one; nothing when it is not closed.
std::string_view after_string(std::string_view rest, char quote) {
  for (std::size_t index = 0; index < rest.size(); ++index) {
    if (rest[index] == quote) {
      return rest.substr(index + 1);
    }
    if (rest[index] == '\\' && quote == '"') {
      ++index;
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

toml::table parse_toml(std::string_view text, const std::string& name) {
  if (is_wide_text(text)) {
    refuse(place_in(name, 1), "the file is UTF-16 or UTF-32: save it as UTF-8");
  }
  if (const auto line = line_of_foreign_character(text)) {
    refuse(place_in(name, *line), "a character outside ASCII stands outside of quotes");
  }
  try {
    return toml::parse(text, name);
  } catch (const toml::parse_error& error) {
    refuse(place_in(name, error.source().begin.line), "not valid TOML: " + std::string(error.description()));
  }
}

const toml::node* table_reader::find(std::string_view key) {
  known_.push_back(key);
  return table_.get(key);
}

table_reader table_reader::nested(std::string_view key, const toml::table& table) const {
  configuration_place place = place_;
  place.position.line = line_of(key);
  return {table, std::move(place), std::string(key) + "."};
}

void table_reader::refuse_unknown() const {
  for (const auto& [key, value] : table_) {
    if (std::find(known_.begin(), known_.end(), key.str()) == known_.end()) {
      refuse_key(key.str(), "there is no such key" + suggestion(key.str(), known_));
    }
  }
}

void table_reader::refuse_key(std::string_view key, const std::string& message) const {
  configuration_place place = place_;
  place.field = prefix_ + std::string(key);
  place.position.line = line_of(key);
  refuse(place, message);
}

void table_reader::refuse_value(std::string_view key, const toml::node& value, const std::string& allowed,
                                const std::string& fault) const {
  configuration_place place = place_;
  place.field = prefix_ + std::string(key);
  place.position.line = value.source().begin.line;
  refuse(place,
         shown(value) + " is given; allowed is " + allowed + (fault.empty() ? std::string() : " (" + fault + ")"));
}

std::uint32_t table_reader::line_of(std::string_view key) const {
  const auto found = table_.find(key);
  return found == table_.end() ? place_.position.line : static_cast<std::uint32_t>(found->first.source().begin.line);
}

std::string shown(const toml::node& value) {
  if (const auto* text = value.as_string()) {
    return "\"" + text->get() + "\"";
  }
  if (value.is_array()) {
    return "an array";
  }
  if (value.is_table()) {
    return "a table";
  }
  std::ostringstream out;
  value.visit([&](const auto& node) { out << node; });
  return out.str();
}

std::string toml_string(std::string_view text) {
  std::string out = "\"";
  for (const char letter : text) {
    const auto code = static_cast<unsigned char>(letter);
    if (letter == '"' || letter == '\\') {
      out += '\\';
      out += letter;
    } else if (code < 0x20 || code == 0x7F) {
      std::array<char, 8> escape{};
      std::snprintf(escape.data(), escape.size(), "\\u%04X", static_cast<unsigned>(code));
      out += escape.data();
    } else {
      out += letter;
    }
  }
  return out + "\"";
}

std::string toml_real(double value) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  std::string out(digits.data(), end);
  return out.find_first_of(".en") == std::string::npos ? out + ".0" : out;
}

std::string toml_key(const std::string& key) {
  constexpr std::string_view bare = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  return !key.empty() && key.find_first_not_of(bare) == std::string::npos ? key : toml_string(key);
}

}  // namespace penstock

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <toml++/toml.h>

#include "base/configuration_error.hpp"

namespace penstock {

/// Parses the text of a configuration file; `name` stands for the file in messages. Throws configuration_error, which
/// names file and line.
[[nodiscard]] toml::table parse_toml(std::string_view text, const std::string& name);

/// The first line (from 1) on which a character outside ASCII stands neither in a comment nor in a one-line string:
/// TOML allows it nowhere else, but for multi-line strings, which the configuration has no use for. toml++ must not see
/// such text: some of it runs the parser into undefined behaviour (marzer/tomlplusplus #190, #295).
[[nodiscard]] std::optional<std::uint32_t> line_of_foreign_character(std::string_view text) noexcept;

/// Whether a text has 2 or 4 bytes a character, as some editors save it: by its byte order mark, or by a zero byte
/// among its first two.
[[nodiscard]] bool is_wide_text(std::string_view text) noexcept;

/// One table of the configuration file while it is read. It knows which keys it was asked for, and can so refuse the
/// others. Every error names the file, the line of the key, the place and what would be allowed.
class table_reader {
 public:
  /// `place` is the table's own; `prefix` ("batch.", "") goes before its keys in messages. `table` must outlive this.
  table_reader(const toml::table& table, configuration_place place, std::string prefix)
      : table_(table), place_(std::move(place)), prefix_(std::move(prefix)) {}

  /// The node of a key; nullptr when there is none. Counts as asked for.
  const toml::node* find(std::string_view key);
  /// The reader of a table that is the value of `key`.
  [[nodiscard]] table_reader nested(std::string_view key, const toml::table& table) const;

  /// Refuses the first key that was never asked for, with the nearest one that was.
  void refuse_unknown() const;
  [[noreturn]] void refuse_key(std::string_view key, const std::string& message) const;
  /// "3 is given; allowed is ALLOWED", and "(FAULT)" where that says more.
  [[noreturn]] void refuse_value(std::string_view key, const toml::node& value, const std::string& allowed,
                                 const std::string& fault = "") const;

  [[nodiscard]] const configuration_place& place() const noexcept { return place_; }
  /// The line of a key; the table's own where it has no such key.
  [[nodiscard]] std::uint32_t line_of(std::string_view key) const;
  [[nodiscard]] const toml::table& contents() const noexcept { return table_; }

 private:
  const toml::table& table_;
  configuration_place place_;
  std::string prefix_;
  std::vector<std::string_view> known_;
};

/// A value as an error shows it: 3, "abc", an array, a table.
[[nodiscard]] std::string shown(const toml::node& value);

// Values as TOML, which parse_toml reads back to the same.

[[nodiscard]] std::string toml_string(std::string_view text);
/// The shortest that reads back to the same number, and that TOML takes for a float.
[[nodiscard]] std::string toml_real(double value);
/// Only plain keys stand without quotes.
[[nodiscard]] std::string toml_key(const std::string& key);

/// "[a, b]", each element through `print`.
template <typename Elements, typename Print>
[[nodiscard]] std::string toml_array(const Elements& elements, Print print) {
  std::string text = "[";
  const char* separator = "";
  for (const auto& element : elements) {
    text += separator + print(element);
    separator = ", ";
  }
  return text + "]";
}

}  // namespace penstock

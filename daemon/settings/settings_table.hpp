#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <toml++/toml.h>

#include "daemon/pipeline/configuration_place.hpp"
#include "daemon/settings/settings_names.hpp"

namespace penstock {

/// One table of the configuration file while it is read. It knows which keys it was asked for, and can so refuse the
/// others. Every error names the file, the line of the key, the place and what would be allowed.
///
/// The readers leave `into` alone when the table has no such key.
class settings_table {
 public:
  /// `place` is the table's own; `prefix` ("batch.", "") goes before its keys in messages. `table` must outlive this.
  settings_table(const toml::table& table, configuration_place place, std::string prefix)
      : table_(table), place_(std::move(place)), prefix_(std::move(prefix)) {}

  /// The node of a key; nullptr when there is none. Counts as asked for.
  const toml::node* find(std::string_view key);

  void read(std::string_view key, bool& into);
  void read(std::string_view key, std::string& into);
  void read(std::string_view key, std::span<const std::string_view> allowed, std::string& into);
  /// A string or an array of strings, at least one.
  void read(std::string_view key, std::vector<std::string>& into);
  void read(std::string_view key, std::chrono::nanoseconds least, std::chrono::nanoseconds most,
            std::chrono::nanoseconds& into);
  void read_size(std::string_view key, std::size_t least, std::size_t most, std::size_t& into);
  template <std::integral Number>
  void read(std::string_view key, Number least, Number most, Number& into) {
    std::int64_t value = into;
    read_integer(key, least, most, value);
    into = static_cast<Number>(value);
  }
  template <typename Value, std::size_t Count>
  void read(std::string_view key, const std::array<named_value<Value>, Count>& allowed, Value& into) {
    std::array<std::string_view, Count> names;
    std::string given;
    for (std::size_t index = 0; index < Count; ++index) {
      names[index] = allowed[index].name;
    }
    read(key, names, given);
    for (const auto& [name, value] : allowed) {
      into = name == given ? value : into;
    }
  }

  /// Refuses the first key that was never asked for, with the nearest one that was.
  void refuse_unknown() const;
  [[noreturn]] void refuse_key(std::string_view key, const std::string& message) const;
  /// "3 is given; allowed is WHAT", and "(FAULT)" where that says more.
  [[noreturn]] void refuse_value(std::string_view key, const toml::node& given, const std::string& allowed,
                                 const std::string& fault = "") const;

  /// The place of a key, on its own line.
  [[nodiscard]] configuration_place place_of(std::string_view key) const;
  [[nodiscard]] std::uint32_t line_of(std::string_view key) const;
  [[nodiscard]] const toml::table& contents() const noexcept { return table_; }

 private:
  void read_integer(std::string_view key, std::int64_t least, std::int64_t most, std::int64_t& into);

  const toml::table& table_;
  configuration_place place_;
  std::string prefix_;
  std::vector<std::string_view> known_;
};

/// A value as an error shows it: 3, "abc", an array, a table.
[[nodiscard]] std::string shown(const toml::node& value);

}  // namespace penstock

#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/config/settings.hpp"
#include "daemon/config/toml_text.hpp"

namespace penstock {

// The kinds of values that the configuration file has. Each reads a key into a value, which it leaves alone where the
// table has no such key; prints the value as TOML; and says in a few words what is allowed.

struct flag_kind {
  [[nodiscard]] std::string summary() const { return "true or false"; }
  void read(table_reader& table, std::string_view key, bool& value) const;
  [[nodiscard]] std::string print(bool value) const { return value ? "true" : "false"; }
};

struct text_kind {
  [[nodiscard]] std::string summary() const { return "text"; }
  void read(table_reader& table, std::string_view key, std::string& value) const;
  [[nodiscard]] std::string print(const std::string& value) const { return toml_string(value); }
};

/// A string or an array of strings, at least one. None is left out.
struct texts_kind {
  [[nodiscard]] std::string summary() const { return "text or array of texts"; }
  void read(table_reader& table, std::string_view key, std::vector<std::string>& value) const;
  [[nodiscard]] std::string print(const std::vector<std::string>& value) const {
    return value.empty() ? "" : toml_array(value, toml_string);
  }
};

struct duration_kind {
  std::chrono::nanoseconds least;
  std::chrono::nanoseconds most;

  [[nodiscard]] std::string summary() const;
  void read(table_reader& table, std::string_view key, std::chrono::nanoseconds& value) const;
  [[nodiscard]] std::string print(std::chrono::nanoseconds value) const;
};

struct size_kind {
  std::size_t least;
  std::size_t most;

  [[nodiscard]] std::string summary() const;
  void read(table_reader& table, std::string_view key, std::size_t& value) const;
  [[nodiscard]] std::string print(std::size_t value) const;
};

/// A path, taken from the folder of the configuration file.
struct file_kind {
  [[nodiscard]] std::string summary() const { return "path"; }
  void read(table_reader& table, std::string_view key, std::filesystem::path& value) const {
    std::string given;
    text_kind().read(table, key, given);
    const std::filesystem::path folder = std::filesystem::path(table.place().position.file).parent_path();
    value = given.empty() ? std::filesystem::path{} : folder / given;
  }
  [[nodiscard]] std::string print(const std::filesystem::path& value) const { return toml_string(value.string()); }
};

/// A whole number.
struct integer_kind {
  std::int64_t least;
  std::int64_t most;

  [[nodiscard]] std::string summary() const;
  template <std::integral Number>
  void read(table_reader& table, std::string_view key, Number& value) const {
    std::int64_t given = value;
    read_integer(table, key, given);
    value = static_cast<Number>(given);
  }
  [[nodiscard]] std::string print(std::int64_t value) const { return std::to_string(value); }

 private:
  void read_integer(table_reader& table, std::string_view key, std::int64_t& value) const;
};

/// One of a few words.
struct word_kind {
  std::span<const std::string_view> words;

  [[nodiscard]] std::string summary() const;
  void read(table_reader& table, std::string_view key, std::string& value) const;
  [[nodiscard]] std::string print(const std::string& value) const { return toml_string(value); }
};

/// One of a few values, each of which has a word.
template <typename Value, std::size_t Count>
struct named_kind {
  const std::array<named_value<Value>, Count>& values;

  [[nodiscard]] std::string summary() const { return word_kind{words_of(values)}.summary(); }
  void read(table_reader& table, std::string_view key, Value& value) const {
    std::string given;
    word_kind{words_of(values)}.read(table, key, given);
    for (const auto& [word, named] : values) {
      value = word == given ? named : value;
    }
  }
  [[nodiscard]] std::string print(Value value) const {
    const auto found =
        std::find_if(values.begin(), values.end(), [&](const auto& each) { return each.value == value; });
    return toml_string(found == values.end() ? "" : found->name);
  }
};
template <typename Value, std::size_t Count>
named_kind(const std::array<named_value<Value>, Count>&) -> named_kind<Value, Count>;

/// When a change of a setting takes effect.
enum class change { by_reload, by_restart };

/// One setting of an Owner (all settings, or one pipeline): the only place that knows its key, what is allowed, when a
/// change takes effect, and what it is for. Its default is that of the member it stands for.
template <typename Owner>
struct setting {
  std::string_view key;
  std::string type;  ///< "duration, 0ns to 1h"
  change effect = change::by_restart;
  std::string_view help;  ///< sentences; the first one is short. `Backticks` enclose what one would write
  std::function<void(table_reader& table, Owner& owner)> read;
  std::function<std::string(const Owner& owner)> print;  ///< as TOML; "": the key is left out
  std::string_view example{};                            ///< of a value, where the default is left out
  bool is_required = false;
};

/// `member(owner)` refers to what the setting stands for.
template <typename Owner, typename Member, typename Kind>
[[nodiscard]] setting<Owner> make_setting(std::string_view key, Member member, Kind kind, change effect,
                                          std::string_view help) {
  return {.key = key,
          .type = kind.summary(),
          .effect = effect,
          .help = help,
          .read = [=](table_reader& table, Owner& owner) { kind.read(table, key, member(owner)); },
          .print = [=](const Owner& owner) { return kind.print(member(owner)); }};
}

/// One key of a table of which there are several, such as [[pipeline]]. A reload changes it.
template <typename Owner, typename Value, typename Kind>
[[nodiscard]] setting<Owner> row(std::string_view key, Value Owner::*member, Kind kind, std::string_view help,
                                 bool is_required = false) {
  setting<Owner> made = make_setting<Owner>(
      key, [member](auto& owner) -> auto& { return owner.*member; }, kind, change::by_reload, help);
  made.is_required = is_required;
  return made;
}

/// Makes the settings of one part of all settings.
template <typename Part>
class settings_of {
 public:
  explicit settings_of(Part settings::*part) : part_(part) {}

  template <typename Value, typename Kind>
  [[nodiscard]] setting<settings> operator()(std::string_view key, Value Part::*member, Kind kind, change effect,
                                             std::string_view help) const {
    const auto value = [ part = part_, member ](auto& all) -> auto& {
      return all.*part.*member;
    };
    return make_setting<settings>(key, value, kind, effect, help);
  }
  /// Of more than one member.
  template <typename Kind>
  [[nodiscard]] setting<settings> operator()(std::string_view key, Kind kind, change effect,
                                             std::string_view help) const {
    const auto value = [part = part_](auto& all) -> auto& {
      return all.*part;
    };
    return make_setting<settings>(key, value, kind, effect, help);
  }

 private:
  Part settings::*part_;
};

template <typename Owner>
void read_all(const std::vector<setting<Owner>>& rows, table_reader& table, Owner& owner) {
  for (const setting<Owner>& row : rows) {
    row.read(table, owner);
  }
}

/// A line for each that is not left out.
template <typename Owner>
[[nodiscard]] std::string print_all(const std::vector<setting<Owner>>& rows, const Owner& owner) {
  std::string text;
  for (const setting<Owner>& row : rows) {
    if (const std::string value = row.print(owner); !value.empty()) {
      text += std::string(row.key) + " = " + value + "\n";
    }
  }
  return text;
}

}  // namespace penstock

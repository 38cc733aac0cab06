#include "daemon/config/setting.hpp"

#include "base/quantity.hpp"

namespace penstock {
namespace {

std::string listed(std::span<const std::string_view> words) {
  std::string list;
  for (const std::string_view word : words) {
    list += (list.empty() ? "one of " : ", ") + std::string(word);
  }
  return list;
}

}  // namespace

void flag_kind::read(table_reader& table, std::string_view key, bool& value) const {
  if (const toml::node* node = table.find(key)) {
    const auto* flag = node->as_boolean();
    if (flag == nullptr) {
      table.refuse_value(key, *node, "true or false");
    }
    value = flag->get();
  }
}

void text_kind::read(table_reader& table, std::string_view key, std::string& value) const {
  if (const toml::node* node = table.find(key)) {
    const auto* text = node->as_string();
    if (text == nullptr) {
      table.refuse_value(key, *node, "a string");
    }
    value = text->get();
  }
}

void texts_kind::read(table_reader& table, std::string_view key, std::vector<std::string>& value) const {
  const toml::node* node = table.find(key);
  if (node == nullptr) {
    return;
  }
  constexpr const char* allowed = "a string or an array of strings, at least one";
  std::vector<std::string> given;
  if (const auto* text = node->as_string()) {
    given.push_back(text->get());
  } else if (const auto* array = node->as_array()) {
    for (const toml::node& element : *array) {
      const auto* each = element.as_string();
      if (each == nullptr) {
        table.refuse_value(key, element, allowed);
      }
      given.push_back(each->get());
    }
    if (given.empty()) {
      table.refuse_key(key, std::string("an empty array is given; allowed is ") + allowed);
    }
  } else {
    table.refuse_value(key, *node, allowed);
  }
  value = std::move(given);
}

std::string duration_kind::summary() const {
  return "duration, " + print_duration(least) + " to " + print_duration(most);
}

void duration_kind::read(table_reader& table, std::string_view key, std::chrono::nanoseconds& value) const {
  const toml::node* node = table.find(key);
  if (node == nullptr) {
    return;
  }
  const auto* text = node->as_string();
  const auto given = text == nullptr ? quantity<std::chrono::nanoseconds>{} : parse_duration(text->get());
  if (!given || *given < least || *given > most) {
    table.refuse_value(key, *node,
                       "a duration from \"" + print_duration(least) + "\" to \"" + print_duration(most) +
                           "\", a number of ns, us, ms, s, min or h",
                       text == nullptr ? "it is no text in quotes"
                       : given         ? ""
                                       : given.fault);
  }
  value = *given;
}

std::string duration_kind::print(std::chrono::nanoseconds value) const {
  return toml_string(print_duration(value));
}

std::string size_kind::summary() const {
  return "size, " + print_size(least) + " to " + print_size(most);
}

void size_kind::read(table_reader& table, std::string_view key, std::size_t& value) const {
  const toml::node* node = table.find(key);
  if (node == nullptr) {
    return;
  }
  quantity<std::size_t> given;
  if (const auto* text = node->as_string()) {
    given = parse_size(text->get());
  } else if (const auto* number = node->as_integer(); number != nullptr && number->get() >= 0) {
    given.value = static_cast<std::size_t>(number->get());
  }
  if (!given || *given < least || *given > most) {
    table.refuse_value(key, *node,
                       "a size from \"" + print_size(least) + "\" to \"" + print_size(most) +
                           "\", a number of B, KiB, MiB, GiB or TiB, or of bytes without a unit",
                       given.fault);
  }
  value = *given;
}

std::string size_kind::print(std::size_t value) const {
  return toml_string(print_size(value));
}

std::string integer_kind::summary() const {
  return "whole number, " + std::to_string(least) + " to " + std::to_string(most);
}

void integer_kind::read_integer(table_reader& table, std::string_view key, std::int64_t& value) const {
  if (const toml::node* node = table.find(key)) {
    const auto* number = node->as_integer();
    if (number == nullptr || number->get() < least || number->get() > most) {
      table.refuse_value(key, *node, "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
    }
    value = number->get();
  }
}

std::string word_kind::summary() const {
  return listed(words);
}

void word_kind::read(table_reader& table, std::string_view key, std::string& value) const {
  const toml::node* node = table.find(key);
  if (node == nullptr) {
    return;
  }
  const auto* text = node->as_string();
  if (text == nullptr || std::find(words.begin(), words.end(), text->get()) == words.end()) {
    table.refuse_value(key, *node, listed(words));
  }
  value = text->get();
}

}  // namespace penstock

#include "daemon/settings/settings_table.hpp"

#include <algorithm>
#include <sstream>

#include "daemon/pipeline/suggestion.hpp"
#include "proto/quantity/quantity.hpp"

namespace penstock {

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

const toml::node* settings_table::find(std::string_view key) {
  known_.push_back(key);
  return table_.get(key);
}

void settings_table::read(std::string_view key, bool& into) {
  if (const toml::node* node = find(key)) {
    const auto* flag = node->as_boolean();
    if (flag == nullptr) {
      refuse_value(key, *node, "true or false");
    }
    into = flag->get();
  }
}

void settings_table::read(std::string_view key, std::string& into) {
  if (const toml::node* node = find(key)) {
    const auto* text = node->as_string();
    if (text == nullptr) {
      refuse_value(key, *node, "a string");
    }
    into = text->get();
  }
}

void settings_table::read(std::string_view key, std::span<const std::string_view> allowed, std::string& into) {
  const toml::node* node = find(key);
  if (node == nullptr) {
    return;
  }
  const auto* text = node->as_string();
  if (text == nullptr || std::find(allowed.begin(), allowed.end(), text->get()) == allowed.end()) {
    std::string list;
    for (const std::string_view name : allowed) {
      list += (list.empty() ? "one of " : ", ") + std::string(name);
    }
    refuse_value(key, *node, list);
  }
  into = text->get();
}

void settings_table::read(std::string_view key, std::vector<std::string>& into) {
  const toml::node* node = find(key);
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
        refuse_value(key, element, allowed);
      }
      given.push_back(each->get());
    }
    if (given.empty()) {
      refuse_key(key, std::string("an empty array is given; allowed is ") + allowed);
    }
  } else {
    refuse_value(key, *node, allowed);
  }
  into = std::move(given);
}

void settings_table::read(std::string_view key, std::chrono::nanoseconds least, std::chrono::nanoseconds most,
                          std::chrono::nanoseconds& into) {
  const toml::node* node = find(key);
  if (node == nullptr) {
    return;
  }
  const auto* text = node->as_string();
  const auto value = text == nullptr ? quantity<std::chrono::nanoseconds>{} : parse_duration(text->get());
  if (!value || *value < least || *value > most) {
    refuse_value(key, *node,
                 "a duration from \"" + print_duration(least) + "\" to \"" + print_duration(most) +
                     "\", a number of ns, us, ms, s, min or h",
                 text == nullptr ? "it is no text in quotes"
                 : value         ? ""
                                 : value.fault);
  }
  into = *value;
}

void settings_table::read_size(std::string_view key, std::size_t least, std::size_t most, std::size_t& into) {
  const toml::node* node = find(key);
  if (node == nullptr) {
    return;
  }
  quantity<std::size_t> value;
  if (const auto* text = node->as_string()) {
    value = parse_size(text->get());
  } else if (const auto* number = node->as_integer(); number != nullptr && number->get() >= 0) {
    value.value = static_cast<std::size_t>(number->get());
  }
  if (!value || *value < least || *value > most) {
    refuse_value(key, *node,
                 "a size from \"" + print_size(least) + "\" to \"" + print_size(most) +
                     "\", a number of B, KiB, MiB, GiB or TiB, or of bytes without a unit",
                 value.fault);
  }
  into = *value;
}

void settings_table::read_integer(std::string_view key, std::int64_t least, std::int64_t most, std::int64_t& into) {
  if (const toml::node* node = find(key)) {
    const auto* number = node->as_integer();
    if (number == nullptr || number->get() < least || number->get() > most) {
      refuse_value(key, *node, "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
    }
    into = number->get();
  }
}

void settings_table::refuse_unknown() const {
  for (const auto& [key, value] : table_) {
    if (std::find(known_.begin(), known_.end(), key.str()) == known_.end()) {
      refuse_key(key.str(), "there is no such key" + suggestion(key.str(), known_));
    }
  }
}

void settings_table::refuse_key(std::string_view key, const std::string& message) const {
  refuse(place_of(key), message);
}

void settings_table::refuse_value(std::string_view key, const toml::node& given, const std::string& allowed,
                                  const std::string& fault) const {
  configuration_place place = place_of(key);
  place.position.line = given.source().begin.line;
  refuse(place,
         shown(given) + " is given; allowed is " + allowed + (fault.empty() ? std::string() : " (" + fault + ")"));
}

configuration_place settings_table::place_of(std::string_view key) const {
  configuration_place place = place_;
  place.field = prefix_ + std::string(key);
  place.position.line = line_of(key);
  return place;
}

std::uint32_t settings_table::line_of(std::string_view key) const {
  const auto found = table_.find(key);
  return found == table_.end() ? place_.position.line : static_cast<std::uint32_t>(found->first.source().begin.line);
}

}  // namespace penstock

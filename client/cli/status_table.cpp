#include "client/cli/status_table.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include <nlohmann/json.hpp>

#include "client/cli/quantity.hpp"

namespace penstock::cli {
namespace {

using json = nlohmann::ordered_json;

/// Of a row: an object of what was timed, each with its quantiles.
constexpr const char* times_key = "timing_us";
constexpr std::array<const char*, 3> quantiles{"p50", "p90", "p99"};

/// A count that never moved, or an object of nothing but these.
bool is_zero(const json& value) {
  if (value.is_object()) {
    return !value.empty() && std::all_of(value.begin(), value.end(), is_zero);
  }
  return value.is_number() && value.get<double>() == 0;
}

std::string value_text(const json& value) {
  if (value.is_string()) {
    return value.get<std::string>();
  }
  if (value.is_number_integer()) {
    return count_text(value.get<double>());
  }
  if (value.is_number_float()) {
    return number_text(value.get<double>());
  }
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

/// An object within a table's row, on one line, without what is zero: "accepted 7, errors (expired 3)".
std::string inline_text(const json& value) {
  if (!value.is_object()) {
    return value_text(value);
  }
  std::string text;
  for (const auto& [key, member] : value.items()) {
    const std::string shown = is_zero(member) ? "-" : inline_text(member);
    if (shown != "-") {
      text += (text.empty() ? "" : ", ") + key + (member.is_object() ? " (" + shown + ")" : " " + shown);
    }
  }
  return text.empty() ? "-" : text;
}

bool is_table(const json& value) {
  return value.is_array() && !value.empty() &&
         std::all_of(value.begin(), value.end(), [](const json& row) { return row.is_object(); });
}

/// Of a table's cells, the first line the columns' names.
std::string aligned(const std::vector<std::vector<std::string>>& cells, const std::string& indent) {
  std::string text;
  for (const std::vector<std::string>& line : cells) {
    text += indent;
    for (std::size_t column = 0; column < line.size(); ++column) {
      std::size_t width = 0;
      for (const auto& each : cells) {
        width = std::max(width, each[column].size());
      }
      text += line[column] + std::string(column + 1 < line.size() ? width - line[column].size() + 2 : 0, ' ');
    }
    text += "\n";
  }
  return text;
}

/// What one row has alone has a column too, which is empty in the others; but what is 0 in each, and times, which have
/// a table of their own.
std::string table_text(const json& rows, const std::string& indent) {
  std::vector<std::vector<std::string>> cells(1);
  for (const json& row : rows) {
    for (const auto& [key, unused] : row.items()) {
      std::vector<std::string>& known = cells.front();
      const bool counts = std::any_of(rows.begin(), rows.end(), [name = key](const json& each) {
        return each.contains(name) && !is_zero(each.at(name));
      });
      if (counts && key != times_key && std::find(known.begin(), known.end(), key) == known.end()) {
        known.push_back(key);
      }
    }
  }
  for (const json& row : rows) {
    std::vector<std::string>& line = cells.emplace_back();
    for (const std::string& key : cells.front()) {
      line.push_back(row.contains(key) ? inline_text(row.at(key)) : "");
    }
  }
  return aligned(cells, indent);
}

/// A line for each row's each time; "" when none has any.
std::string times_text(const json& rows, const std::string& indent) {
  std::vector<std::vector<std::string>> cells{{"name", "of"}};
  cells.front().insert(cells.front().end(), quantiles.begin(), quantiles.end());
  for (const json& row : rows) {
    const json times = row.value(times_key, json::object());
    for (const auto& [what, time] : times.items()) {
      std::vector<std::string>& line =
          cells.emplace_back(std::vector<std::string>{inline_text(row.value("name", json(""))), what});
      for (const char* const each : quantiles) {
        line.push_back(time.contains(each) ? inline_text(time.at(each)) : "");
      }
    }
  }
  return cells.size() == 1 ? "" : indent + times_key + "\n" + aligned(cells, indent + "  ");
}

std::string object_text(const json& object, const std::string& indent) {
  std::size_t width = 0;
  for (const auto& [key, member] : object.items()) {
    width = std::max(width, key.size());
  }
  std::string text;
  for (const auto& [key, member] : object.items()) {
    if (is_zero(member)) {
      continue;
    }
    if (member.is_object() && !member.empty()) {
      text += indent + key + "\n" + object_text(member, indent + "  ");
    } else if (is_table(member)) {
      text += indent + key + "\n" + table_text(member, indent + "  ") + times_text(member, indent);
    } else {
      text += indent + key + std::string(width - key.size() + 2, ' ') + inline_text(member) + "\n";
    }
  }
  return text;
}

}  // namespace

std::string status_table(std::string_view text) {
  const json read = json::parse(text, nullptr, /*allow_exceptions=*/false);
  return read.is_object() ? object_text(read, "  ") : std::string(text) + "\n";
}

}  // namespace penstock::cli

#include "client/cli/status_table.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/quantity.hpp"

namespace penstock::cli {
namespace {

using json = nlohmann::ordered_json;

/// A row's timings: an object of quantiles for each.
constexpr const char* times_key = "timing_us";
constexpr std::array<const char*, 3> quantiles{"p50", "p90", "p99"};

/// True for zero, and for an object of zeros.
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

/// An object in a table cell, without zeros: "accepted 7, errors (expired 3)".
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

/// Formats a table; the first row holds the column names.
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

/// The columns: every member of any row, except those that are 0 in all rows, and timings, which have a separate table.
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

/// One line per row and timing; "" when there are none.
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

namespace {

/// Calls `visit` with the name and the reason of each pipeline that is not served.
template <class Visit>
void each_quarantined(std::string_view status, const Visit& visit) {
  const json all = json::parse(status, nullptr, /*allow_exceptions=*/false);
  if (!all.is_object() || !all.contains("quarantine") || !all["quarantine"].is_array()) {
    return;
  }
  for (const json& each : all["quarantine"]) {
    if (each.is_object()) {
      visit(each.value("pipeline", ""), each.value("reason", ""));
    }
  }
}

}  // namespace

std::string quarantine_text(std::string_view status) {
  std::string text;
  each_quarantined(status, [&](const std::string& /*name*/, const std::string& reason) {
    text += "  not served: " + reason + "\n";
  });
  return text;
}

std::string quarantine_reason(std::string_view status, std::string_view pipeline) {
  std::string found;
  each_quarantined(
      status, [&](const std::string& name, const std::string& reason) { found = name == pipeline ? reason : found; });
  return found;
}

}  // namespace penstock::cli

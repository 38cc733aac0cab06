#include "base/finding.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include <nlohmann/json.hpp>

namespace penstock {
namespace {

constexpr std::array<std::string_view, 3> words{"ok", "WARNING", "ERROR"};
constexpr std::array<std::string_view, 3> names{"good", "warning", "error"};
constexpr std::size_t columns = 80;
constexpr std::size_t margin = 9;
constexpr std::size_t text_begin = 28;

std::size_t count_of(const std::vector<finding>& findings, severity level) {
  return static_cast<std::size_t>(
      std::count_if(findings.begin(), findings.end(), [level](const finding& each) { return each.level == level; }));
}

std::string counted(std::size_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

void pad(std::string& line, std::size_t width) {
  line.append(width - std::min(line.size(), width), ' ');
}

/// `head` and `label` stand before the first line of the text, which is broken between words.
void add_wrapped(std::string& out, std::string_view head, std::string_view label, std::string_view text) {
  std::string line(head);
  pad(line, margin);
  line += label;
  pad(line, text_begin - 1);
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    if (line.size() + 1 + word.size() > columns && line.size() >= text_begin) {
      out += line + "\n";
      line.assign(text_begin - 1, ' ');
    }
    line += " ";
    line += word;
  }
  out += line + "\n";
}

}  // namespace

int exit_code_of(const std::vector<finding>& findings) noexcept {
  int worst = 0;
  for (const finding& each : findings) {
    worst = std::max(worst, static_cast<int>(each.level));
  }
  return worst;
}

std::string text_of(const std::vector<finding>& findings) {
  std::string out;
  for (const finding& each : findings) {
    add_wrapped(out, words[static_cast<std::size_t>(each.level)], each.check, each.found);
    if (each.level != severity::good) {
      add_wrapped(out, "", "  needed", each.needed);
      add_wrapped(out, "", "  why", each.why);
      add_wrapped(out, "", "  what to do", each.todo);
    }
  }
  return out + counted(count_of(findings, severity::error), "error") + ", " +
         counted(count_of(findings, severity::warning), "warning") + ", " + counted(findings.size(), "check") + "\n";
}

std::string json_of(const std::vector<finding>& findings) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const finding& each : findings) {
    all.push_back({{"check", each.check},
                   {"severity", names[static_cast<std::size_t>(each.level)]},
                   {"found", each.found},
                   {"needed", each.needed},
                   {"why", each.why},
                   {"todo", each.todo}});
  }
  const nlohmann::ordered_json whole{{"exit_code", exit_code_of(findings)},
                                     {"warnings", count_of(findings, severity::warning)},
                                     {"errors", count_of(findings, severity::error)},
                                     {"findings", std::move(all)}};
  return whole.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::optional<std::vector<finding>> read_findings(std::string_view text) {
  std::vector<finding> all;
  try {
    const nlohmann::json whole = nlohmann::json::parse(text);
    for (const nlohmann::json& each : whole.at("findings")) {
      const auto member = [&each](const char* key) { return each.at(key).get<std::string>(); };
      const auto level = std::find(names.begin(), names.end(), member("severity"));
      if (level == names.end()) {
        return std::nullopt;
      }
      all.push_back({.check = member("check"),
                     .level = static_cast<severity>(level - names.begin()),
                     .found = member("found"),
                     .needed = member("needed"),
                     .why = member("why"),
                     .todo = member("todo")});
    }
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
  return all;
}

}  // namespace penstock

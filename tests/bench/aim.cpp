#include "tests/bench/aim.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "tests/bench/sections.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;

// The runs that speak of all the aims together.
struct needed_run {
  const char* benchmark;
  const char* backend;
};
constexpr needed_run needed[] = {
    {"shared", "cuda"},  {"throughput", "cuda"}, {"modes", "cuda"},     {"latency", "cuda"}, {"overlap", "cuda"},
    {"devices", "cuda"}, {"throughput", "host"}, {"operators", "host"}, {"timing", "cuda"},  {"overload", "cuda"}};

std::vector<aim> aims_of(const ordered_json& result) {
  const section& of = section_of(result);
  return of.aims == nullptr ? std::vector<aim>{} : of.aims(result);
}

constexpr const char* how_to_read =
    "\n"
    "Median (least–most) of the ratios that the turns gave one by one; where there is no spread the run has kept no\n"
    "such ratios, and the figure is made of the medians. Of several rows the one that is farthest from the aim is\n"
    "shown, with its name. Yes or no is by the median; beside the raw echo it is yes only where the ratio of the\n"
    "medians says so too. Of the completion modes the ends are those between which the median lies.\n"
    "\n| what | wanted | reached | | by |\n|---|---|---|---|---|\n";

std::string verdict(const aim& on) {
  constexpr std::size_t digits = 4;
  if (on.met) {
    return "yes";
  }
  return on.held_back.empty() ? "no"
                              : fmt::format("no: [{}](decisions/{}.md)", on.held_back.substr(0, digits), on.held_back);
}

bool speaks_for(const ordered_json& result, const needed_run& run) {
  return result.at("benchmark") == run.benchmark && ran_on(result, run.backend) && !aims_of(result).empty();
}

}  // namespace

bool ran_on(const ordered_json& result, const char* backend) {
  return result.at("device").at("backend") == backend;
}

aim not_measured(std::string what, std::string wanted) {
  return {std::move(what), std::move(wanted), "not measured"};
}

std::string aims_table(const std::vector<ordered_json>& results) {
  std::string rows;
  for (const ordered_json& result : results) {
    for (const aim& each : aims_of(result)) {
      rows += fmt::format("| {} | {} | {} | {} | {}{}, {} |\n", each.what, each.wanted, each.reached, verdict(each),
                          result.at("benchmark").get<std::string>(), result.value("quick", false) ? " (short)" : "",
                          result.at("device").at("name").get<std::string>());
    }
  }
  return rows.empty() ? "" : how_to_read + rows;
}

std::string missing_runs(const std::vector<ordered_json>& results) {
  std::string text;
  for (const needed_run& each : needed) {
    if (std::none_of(results.begin(), results.end(),
                     [&](const ordered_json& result) { return speaks_for(result, each); })) {
      text += fmt::format("{}`{}` ({})", text.empty() ? "\nNot measured yet: " : ", ", each.benchmark, each.backend);
    }
  }
  return text.empty() ? "" : text + ".\n";
}

}  // namespace penstock::bench

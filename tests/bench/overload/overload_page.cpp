#include "tests/bench/overload/overload_page.hpp"

#include <fmt/format.h>

#include "tests/bench/page_text.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;

std::string refusals_text(const ordered_json& refusals) {
  std::string text;
  for (const auto& [code, count] : refusals.items()) {
    text += (text.empty() ? "" : ", ") + fmt::format("{} {}", count.get<std::uint64_t>(), code);
  }
  return text.empty() ? "none" : text;
}

std::string recovery_text(double seconds) {
  return seconds < 0 ? "not seen" : fmt::format("{:.0f}", 1e3 * seconds);
}

}  // namespace

std::string overload_tables(const ordered_json& result) {
  std::string text = facts_line(result);
  text += fmt::format(
      "{} clients send {:.0f} times what the daemon can do ({:.0f} requests a second) for {:.1f} s, at random times "
      "and "
      "whatever becomes of earlier requests: far beyond their credits, so that most are refused. Every request must "
      "get an answer. Beside them a client sends little, from before until after: normal is its p90 before, and it has "
      "recovered with the first of ten requests in a row that take at most twice that. The growth is the most memory "
      "in the second half of the overload beside the most in the first.\n\n"
      "| sent | results | refused | without an answer | resident memory MiB | growth | normal µs | p50 during ms | "
      "recovered after ms |\n|---|---|---|---|---|---|---|---|---|\n",
      result.at("clients").get<int>(), result.at("times_capacity").get<double>(),
      result.at("capacity_per_second").get<double>(), result.at("seconds").get<double>());
  for (const ordered_json& row : result.at("rows")) {
    text += fmt::format("| {} | {} | {} | {} | {:.0f} | {:.3f} | {:.0f} | {:.1f} | {} |\n",
                        row.at("sent").get<std::uint64_t>(), row.at("results").get<std::uint64_t>(),
                        refusals_text(row.at("refusals")), row.at("unanswered").get<std::uint64_t>(),
                        row.at("resident_mib").back().get<double>(), row.at("resident_growth").get<double>(),
                        row.at("normal_us").get<double>(), 1e-3 * row.at("overloaded_us").get<double>(),
                        recovery_text(row.at("recovery_s").get<double>()));
  }
  return text;
}

std::vector<chart> overload_charts(const ordered_json& result) {
  chart made{"The daemon's memory under twice its capacity", "s", "resident MiB", false, false, {}};
  std::size_t number = 0;
  for (const ordered_json& row : result.at("rows")) {
    made.lines.push_back({fmt::format("repeat {}", ++number),
                          row.at("memory_s").get<std::vector<double>>(),
                          row.at("resident_mib").get<std::vector<double>>(),
                          {},
                          {}});
  }
  return {made};
}

}  // namespace penstock::bench

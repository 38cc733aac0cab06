#include "tests/bench/latency/latency_page.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "tests/bench/chart_line.hpp"
#include "tests/bench/page_text.hpp"
#include "tests/bench/statistics.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;

constexpr std::array<std::pair<const char*, const char*>, 4> contenders{
    {{"echo", "raw echo"}, {"callback", "daemon, callback"}, {"poll", "daemon, poll"}, {"auto", "daemon, auto"}}};

std::string load_table(const ordered_json& rows) {
  std::string text =
      "| load | requests a second | | p50 µs | p90 µs | p99 µs | p99.9 µs | most µs |\n"
      "|---|---|---|---|---|---|---|---|\n";
  for (const ordered_json& row : rows) {
    for (const auto& [key, name] : contenders) {
      if (!row.contains(key)) {
        continue;
      }
      text += fmt::format("| {:.0f} % | {:.0f} | {} |", 100 * row.at("load").get<double>(),
                          row.at("requests_per_second").get<double>(), name);
      for (const char* const part : {"p50", "p90", "p99", "p999", "max"}) {
        text += " " + spread_text(row.at(key).at(part), 1, 0) + " |";
      }
      text += "\n";
    }
  }
  return text;
}

// Which rows' percentiles lack requests. Nothing where they were not counted, as in results from before that.
std::string missing_text(const ordered_json& rows) {
  std::string text;
  std::uint64_t sent = 0;
  for (const ordered_json& row : rows) {
    for (const auto& [key, name] : contenders) {
      if (!row.contains(key) || !row.at(key).contains("sent")) {
        continue;
      }
      const auto count_of = [&of = row.at(key)](const char* what) { return of.at(what).get<std::uint64_t>(); };
      sent += count_of("sent");
      if (count_of("refused") + count_of("unanswered") > 0) {
        text += fmt::format("{}{} at {:.0f} %, {} refused and {} without an answer of {}", text.empty() ? "" : "; ",
                            name, 100 * row.at("load").get<double>(), count_of("refused"), count_of("unanswered"),
                            count_of("sent"));
      }
    }
  }
  if (sent == 0) {
    return "";
  }
  return text.empty() ? fmt::format("\nAll {} requests had their result.\n", sent)
                      : fmt::format("\nRequests that had no result, and are in no percentile: {}.\n", text);
}

std::string idle_table(const ordered_json& result) {
  const ordered_json& idle = result.at("idle");
  const double echo = median_of(idle.at("echo"), "latency_p50_us");
  std::string text = fmt::format(
      "\nOne {} frame on an idle daemon, p50 in µs. The aim is at most the raw round trip + one bare batch + 10 "
      "µs.{}\n\n"
      "| completion | raw round trip | bare batch | daemon | daemon − both |\n|---|---|---|---|---|\n",
      bytes_text(result.at("bytes").get<std::size_t>()),
      ran_on(result, "cuda")
          ? " The bare batch's threads stay off the processor that takes the GPU's interrupts, as the "
            "daemon's do."
          : "");
  for (const std::string mode : {"callback", "poll", "auto"}) {
    if (!idle.contains(mode)) {
      continue;
    }
    const std::string bare = mode == "callback" ? "bare_callback_us" : "bare_poll_us";  // `auto` polls for one so short
    text +=
        fmt::format("| {} | {} | {} | {} | {:+.1f} |\n", mode, spread_text(idle.at("echo").at("latency_p50_us"), 1, 1),
                    spread_text(idle.at(bare), 1, 1), spread_text(idle.at(mode).at("latency_p50_us"), 1, 1),
                    median_of(idle.at(mode), "latency_p50_us") - echo - median_of(idle, bare.c_str()));
  }
  return text;
}

// What an idle daemon's p50 has beyond the raw round trip and the bare batch of the same turn; of the medians where the
// run has kept no turns.
spread beyond_its_parts(const ordered_json& idle, const std::string& mode, const char* bare) {
  if (!idle.contains("bare_turns")) {
    const double beyond = median_of(idle.at(mode), "latency_p50_us") - median_of(idle.at("echo"), "latency_p50_us") -
                          median_of(idle, bare);
    return {beyond, beyond, beyond};
  }
  using turns = std::vector<double>;
  turns beyond = idle.at(mode).at("turns").at("latency_p50_us").get<turns>();
  const turns echo = idle.at("echo").at("turns").at("latency_p50_us").get<turns>();
  const turns batch = idle.at("bare_turns").at(mode).get<turns>();
  for (std::size_t turn = 0; turn < beyond.size(); ++turn) {
    beyond[turn] -= echo.at(turn) + batch.at(turn);
  }
  return spread_of(beyond);
}

chart chart_of(const ordered_json& rows, const char* part, const char* title) {
  chart made{title, "load, requests a second", "µs", false, true, {}};
  for (const auto& [key, name] : contenders) {
    if (!rows.at(0).contains(key)) {
      continue;
    }
    made.lines.push_back(line_of(name, rows, "requests_per_second", std::string("/") + key + "/" + part));
  }
  return made;
}

}  // namespace

std::string latency_tables(const ordered_json& result) {
  return facts_line(result) +
         fmt::format(
             "{} clients send requests of {} at random times (open loop: a Poisson process each, whatever becomes of "
             "earlier requests); latency runs from the time at which a request was meant to leave. The load is a part "
             "of what the slower completion mode does in a closed loop with 128 in flight, {:.0f} requests a second; "
             "the raw echo gets the same rates. Where the load generator shares its cores with the daemon, its own "
             "lateness is in every row.\n\n",
             result.at("clients").get<int>(), bytes_text(result.at("bytes").get<std::size_t>()),
             result.at("capacity_per_second").get<double>()) +
         load_table(result.at("rows")) + missing_text(result.at("rows")) + idle_table(result);
}

std::vector<chart> latency_charts(const ordered_json& result) {
  return {chart_of(result.at("rows"), "p50", "p50 under load"), chart_of(result.at("rows"), "p99", "p99 under load"),
          chart_of(result.at("rows"), "p999", "p99.9 under load")};
}

std::vector<aim> latency_aims(const ordered_json& result) {
  if (!ran_on(result, "cuda")) {
    return {};
  }
  const ordered_json& idle = result.at("idle");
  std::vector<aim> made;
  for (const auto& [mode, bare, name] : {std::array{"poll", "bare_poll_us", "polled completion"},
                                         std::array{"callback", "bare_callback_us", "stream callbacks"}}) {
    const spread beyond = beyond_its_parts(idle, mode, bare);
    made.push_back(
        {fmt::format("one {} frame, idle daemon, {}, beyond the raw round trip and one bare batch",
                     bytes_text(result.at("bytes").get<std::size_t>()), name),
         "≤ 10 µs",
         fmt::format("{:.1f} µs{}: {} less {} and {}", beyond.median,
                     idle.contains("bare_turns") ? fmt::format(" ({:.1f} to {:.1f})", beyond.least, beyond.most) : "",
                     spread_text(idle.at(mode).at("latency_p50_us"), 1, 1),
                     spread_text(idle.at("echo").at("latency_p50_us"), 1, 1), spread_text(idle.at(bare), 1, 1)),
         beyond.median <= 10, "0027-off-the-interrupts"});
  }
  return made;
}

}  // namespace penstock::bench

#include "tests/bench/completion/completion_page.hpp"

#include <fmt/format.h>

#include "tests/bench/chart_line.hpp"
#include "tests/bench/page_text.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;

// A row for each way, a column for each payload.
std::string table(const ordered_json& rows, const char* key, double scale, int decimals) {
  std::string head = "| |";
  std::string rule = "|---|";
  for (const ordered_json& row : rows) {
    head += " " + bytes_text(row.at("bytes").get<std::size_t>()) + " |";
    rule += "---|";
  }
  std::string text = head + "\n" + rule + "\n";
  for (const auto& [name, unused] : rows.front().at("ways").items()) {
    text += "| " + name + " |";
    for (const ordered_json& row : rows) {
      text += " " + spread_text(row.at("ways").at(name).at(key), scale, decimals) + " |";
    }
    text += "\n";
  }
  return text;
}

chart over_payload(const ordered_json& rows, const char* title, const char* unit, const char* key, double scale) {
  chart made{title, "payload, bytes", unit, true, true, {}};
  for (const auto& [name, unused] : rows.front().at("ways").items()) {
    made.lines.push_back(line_of(name, rows, "bytes", "/ways/" + name + "/" + key, scale));
  }
  return made;
}

}  // namespace

std::string completion_tables(const ordered_json& result) {
  const ordered_json& rows = result.at("rows");
  std::string text =
      "Bare CUDA: one batch is a copy in, one kernel and a copy out in pinned memory on a non-blocking stream, and "
      "what "
      "tells the host. Callbacks and host functions store a word that the host thread spins on; where the thread is "
      "asleep they write an eventfd too.\n\n" +
      facts_line(result);
  text += "One batch at a time, from the first call until the host knows, p50 in µs:\n\n" +
          table(rows, "latency_p50_us", 1, 1);
  text += "\np99 in µs:\n\n" + table(rows, "latency_p99_us", 1, 1);
  text += fmt::format("\nThousand batches a second with one in flight on each of {} streams:\n\n",
                      result.at("streams").get<int>()) +
          table(rows, "batches_per_second", 1e-3, 1);
  text += "\nCPU time of the whole process for one of these batches, the spinning included, in µs:\n\n" +
          table(rows, "rate_cpu_us", 1, 1);
  text += "\nAnd for one of those run one at a time:\n\n" + table(rows, "latency_cpu_us", 1, 1);
  return text;
}

std::vector<chart> completion_charts(const ordered_json& result) {
  const ordered_json& rows = result.at("rows");
  return {over_payload(rows, "One batch at a time, p50", "µs", "latency_p50_us", 1),
          over_payload(rows, "All streams", "thousand batches a second", "batches_per_second", 1e-3),
          over_payload(rows, "CPU time of a batch, all streams", "µs", "rate_cpu_us", 1)};
}

}  // namespace penstock::bench

#include "tests/bench/submit/submit_page.hpp"

#include <functional>

#include <fmt/format.h>

#include "tests/bench/chart_line.hpp"
#include "tests/bench/page_text.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;

// A row for each way, a column for each row of the result.
std::string table(const ordered_json& rows, const char* key,
                  const std::function<std::string(const ordered_json&)>& head_of) {
  std::string head = "| |";
  std::string rule = "|---|";
  for (const ordered_json& row : rows) {
    head += " " + head_of(row) + " |";
    rule += "---|";
  }
  std::string text = head + "\n" + rule + "\n";
  for (const auto& [name, unused] : rows.front().at("ways").items()) {
    text += "| " + name + " |";
    for (const ordered_json& row : rows) {
      text += " " + spread_text(row.at("ways").at(name).at(key)) + " |";
    }
    text += "\n";
  }
  return text;
}

std::string kernels_text(const ordered_json& row) {
  const int kernels = row.at("kernels").get<int>();
  return fmt::format("{} {}", kernels, kernels == 1 ? "kernel" : "kernels");
}

std::string pieces_text(const ordered_json& row) {
  return fmt::format("{} × {}", row.at("pieces").get<int>(), bytes_text(row.at("piece_bytes").get<std::size_t>()));
}

std::string hand_over_table(const ordered_json& rows) {
  std::string text =
      "\nThe same batch with one kernel and an event, submitted by the thread that waits for it, or handed to a thread "
      "that does nothing else. The thread's own time for handing a batch on; one batch alone, until its event is seen; "
      "and with a batch on every stream all the time:\n\n"
      "| submitted | own CPU time a batch, µs | alone until done, p50 µs | thousand batches a second |\n"
      "|---|---|---|---|\n";
  for (const ordered_json& row : rows) {
    text += fmt::format("| {} | {} | {} | {} |\n", row.at("way").get<std::string>(), spread_text(row.at("cpu_us")),
                        spread_text(row.at("until_done_us"), 1, 1), spread_text(row.at("batches_per_second"), 1e-3, 1));
  }
  return text;
}

}  // namespace

std::string submit_tables(const ordered_json& result) {
  std::string text = fmt::format(
      "Bare CUDA: what it costs the thread to enqueue one batch of {} (copy in, kernels, copy out, notice) on an idle "
      "stream, in bursts of one batch on each of {} streams; the waits between are not counted.\n\n",
      bytes_text(result.at("bytes").get<std::size_t>()), result.at("streams").get<int>());
  text += facts_line(result);
  text += "CPU time a batch, µs:\n\n" + table(result.at("rows"), "cpu_us", kernels_text);
  text += "\nElapsed time a batch, p50 in µs:\n\n" + table(result.at("rows"), "wall_us", kernels_text);
  text += "\nCPU time to enqueue a group of small pieces on their way in, µs:\n\n" +
          table(result.at("pieces"), "cpu_us", pieces_text);
  if (result.contains("hand_over")) {
    text += hand_over_table(result.at("hand_over"));
  }
  return text;
}

std::vector<chart> submit_charts(const ordered_json& result) {
  const ordered_json& rows = result.at("rows");
  chart cpu{"CPU time to enqueue a batch", "kernels in the batch", "µs", true, false, {}};
  for (const auto& [name, unused] : rows.front().at("ways").items()) {
    cpu.lines.push_back(line_of(name, rows, "kernels", "/ways/" + name + "/cpu_us"));
  }
  return {cpu};
}

}  // namespace penstock::bench

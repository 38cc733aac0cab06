#include "tests/bench/timing/timing_page.hpp"

#include <fmt/format.h>

#include "tests/bench/chart_line.hpp"
#include "tests/bench/page_text.hpp"
#include "tests/bench/statistics.hpp"

namespace penstock::bench {

std::string timing_tables(const nlohmann::ordered_json& result) {
  std::string text = facts_line(result);
  text += fmt::format(
      "Throughput of requests of {} with {} in flight, through {}. \"every\" asks for every batch; the daemon reads as "
      "many as a part of its thread "
      "allows. The aim is to cost less than 1 %.\n\n"
      "| timing | batches a second | requests a second, thousands | of off |\n|---|---|---|---|\n",
      bytes_text(result.at("bytes").get<std::size_t>()), result.at("in_flight").get<int>(),
      result.value("one_daemon", false)
          ? "one daemon whose `[timing] batches_per_second` is changed by a reload before each turn"
          : "daemons that differ in `[timing] batches_per_second` alone");
  for (const nlohmann::ordered_json& row : result.at("rows")) {
    text += fmt::format("| {} | {} | {} | {} |\n", row.at("timing").get<std::string>(),
                        row.at("batches_per_second").get<std::uint64_t>(),
                        spread_text(row.at("requests_per_second"), 1e-3, 1), spread_text(row.at("ratio"), 1, 3));
  }
  return text;
}

std::vector<chart> timing_charts(const nlohmann::ordered_json& result) {
  nlohmann::ordered_json timed = nlohmann::ordered_json::array();
  for (const nlohmann::ordered_json& row : result.at("rows")) {
    if (row.at("batches_per_second").get<std::uint64_t>() > 0) {
      timed.push_back(row);
    }
  }
  chart made{"Throughput beside that without timing", "batches timed a second", "of off", true, false, {}};
  made.lines.push_back(line_of("daemon", timed, "batches_per_second", "/ratio"));
  return {made};
}

std::vector<aim> timing_aims(const nlohmann::ordered_json& result) {
  for (const nlohmann::ordered_json& row : result.at("rows")) {
    if (row.at("timing") == "default") {
      const spread left = spread_from(row.at("ratio"));
      const spread cost{1 - left.median, 1 - left.most, 1 - left.least};
      return {{"cost of event timing alone, as many batches a second as by default", "< 1 %",
               fmt::format("{:.1f} % ({:.1f} to {:.1f})", 100 * cost.median, 100 * cost.least, 100 * cost.most),
               cost.median < 0.01},
              not_measured("cost of metrics and of the timeline", "< 1 %")};
    }
  }
  return {};
}

}  // namespace penstock::bench

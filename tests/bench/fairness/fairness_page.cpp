#include "tests/bench/fairness/fairness_page.hpp"

#include <fmt/format.h>

#include "tests/bench/page_text.hpp"
#include "tests/bench/statistics.hpp"

namespace penstock::bench {
namespace {

std::string streams_text(int streams) {
  return streams == 1 ? "one stream" : std::to_string(streams) + " streams";
}

}  // namespace

std::string fairness_tables(const nlohmann::ordered_json& result) {
  std::string text = facts_line(result);
  text += fmt::format(
      "{} well-behaved clients send at random times, {:.0f} requests of each run; latency runs from the time at which "
      "a "
      "request was meant to leave. Beside them is a ninth. Fair: it sends as they do, each a ninth of {:.0f} % of the "
      "{:.0f} requests a second that the device can do. Flooding: as much in flight as its credits allow, all the "
      "time. "
      "Batches have at most {} frames, and the wheel has {}.\n\n"
      "| the eight | p50 ms | p99 ms |\n|---|---|---|\n",
      result.at("well_behaved").get<int>(), result.at("requests").get<double>(), 100 * result.at("load").get<double>(),
      result.at("capacity_per_second").get<double>(), result.at("max_frames").get<int>(),
      streams_text(result.value("streams", 8)));
  text += fmt::format("| beside a fair ninth | {} | {} |\n| beside a flood of {:.0f} results a second | {} | {} |\n\n",
                      spread_text(result.at("fair_p50_us"), 1e-3), spread_text(result.at("fair_p99_us"), 1e-3),
                      median_of(result, "flood_per_second"), spread_text(result.at("flooded_p50_us"), 1e-3),
                      spread_text(result.at("flooded_p99_us"), 1e-3));
  text += fmt::format(
      "The p99 with the flood is {} times the one without; the aim is at most 1.5. One client of the low priority, one "
      "request at a time, gets {} results a second alone and {} while the high priority is flooded.\n",
      spread_text(result.at("p99_ratio")), spread_text(result.at("low_alone_per_second"), 1, 1),
      spread_text(result.at("low_flooded_per_second"), 1, 1));
  return text;
}

std::vector<chart> fairness_charts(const nlohmann::ordered_json& result) {
  chart made{"Latency of the eight", "percent of the requests", "ms", false, true, {}};
  for (const auto& [key, name] :
       {std::pair{"fair", "beside a fair ninth"}, std::pair{"flooded", "beside one that floods"}}) {
    chart_line line{name, {50, 99}, {}, {}, {}};
    for (const char* const quantile : {"_p50_us", "_p99_us"}) {
      const spread of = spread_from(result.at(std::string(key) + quantile));
      line.y.push_back(of.median * 1e-3);
      line.least.push_back(of.least * 1e-3);
      line.most.push_back(of.most * 1e-3);
    }
    made.lines.push_back(line);
  }
  return {made};
}

}  // namespace penstock::bench

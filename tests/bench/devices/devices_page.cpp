#include "tests/bench/devices/devices_page.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "tests/bench/chart_line.hpp"
#include "tests/bench/page_text.hpp"

namespace penstock::bench {

std::string devices_tables(const nlohmann::ordered_json& result) {
  std::string text = facts_line(result);
  text += fmt::format(
      "A pipeline that computes much and moves little ({} in, {:.0f} million products of a tap and a sample a "
      "request), "
      "through the daemon with one shard a device; {} clients a device with {} requests in flight each. The aim is at "
      "least 1.9 times one device with two and 3.7 times with four.\n\n"
      "| devices | requests a second | of one device |\n|---|---|---|\n",
      bytes_text(result.at("bytes").get<std::size_t>()), result.at("products_a_request").get<double>() / 1e6,
      result.at("clients_a_device").get<int>(), result.at("in_flight").get<int>());
  for (const nlohmann::ordered_json& row : result.at("rows")) {
    text += fmt::format("| {} | {} | {} |\n", row.at("devices").get<int>(),
                        spread_text(row.at("requests_per_second"), 1, 0), spread_text(row.at("ratio")));
  }
  if (result.at("available").get<int>() == 1) {
    text += "\nThere was one device: nothing to compare.\n";
  }
  return text;
}

std::vector<chart> devices_charts(const nlohmann::ordered_json& result) {
  if (result.at("available").get<int>() == 1) {
    return {};
  }
  chart made{"Throughput of one device", "devices", "times one device", false, false, {}};
  made.lines.push_back(line_of("measured", result.at("rows"), "devices", "/ratio"));
  made.lines.push_back({"linear", made.lines.front().x, made.lines.front().x, {}, {}});
  return {made};
}

std::vector<aim> devices_aims(const nlohmann::ordered_json& result) {
  if (!ran_on(result, "cuda")) {
    return {};
  }
  const nlohmann::ordered_json& rows = result.at("rows");
  std::vector<aim> made;
  for (const auto& [devices, least] : {std::pair{2, 1.9}, std::pair{4, 3.7}}) {
    const std::string what = fmt::format("{} devices, compute-bound, of one", devices);
    const std::string wanted = fmt::format("≥ {} times", least);
    const auto row = std::find_if(rows.begin(), rows.end(),
                                  [&](const nlohmann::ordered_json& each) { return each.at("devices") == devices; });
    made.push_back(row == rows.end() ? aim{what, wanted, fmt::format("not measured: the machine had {}", rows.size())}
                                     : aim{what, wanted, figure_text(row->at("ratio"), "times", 1, 2),
                                           median_of(*row, "ratio") >= least});
  }
  return made;
}

}  // namespace penstock::bench

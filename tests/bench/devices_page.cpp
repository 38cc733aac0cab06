#include "tests/bench/devices_page.hpp"

#include <fmt/format.h>

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

}  // namespace penstock::bench

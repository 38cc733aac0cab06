#include "tests/bench/ring/ring_page.hpp"

#include <fmt/format.h>

#include "tests/bench/chart_line.hpp"
#include "tests/bench/page_text.hpp"
#include "tests/bench/statistics.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;

// Results from before small pages were measured have none.
std::string pages_table(const ordered_json& copies) {
  if (!copies.front().contains("small_pages_ns")) {
    return "";
  }
  std::string text =
      "\nThe same memcpy into a ring that lies on ordinary pages of 4 KiB, in turns with one on huge pages; less than "
      "1 "
      "is a gain of huge pages:\n\n"
      "| memcpy | ordinary pages, ns | huge pages, ns | huge / ordinary |\n|---|---|---|---|\n";
  for (const ordered_json& row : copies) {
    text += fmt::format("| {} | {} | {} | {} |\n", bytes_text(row.at("bytes").get<std::size_t>()),
                        spread_text(row.at("small_pages_ns"), 1, 1), spread_text(row.at("ns"), 1, 1),
                        spread_text(row.at("of_small_pages")));
  }
  return text;
}

}  // namespace

std::string ring_tables(const ordered_json& result) {
  std::string text = facts_line(result);
  text += fmt::format(
      "What a slot costs beside the payload's copy into it. {} slots, {} operations a repeat; the other thread waits "
      "by "
      "yielding, so on few cores the rows with two threads are the scheduler's as well.\n\n"
      "| operation | ns |\n|---|---|\n",
      result.at("slots").get<int>(), result.at("operations_a_repeat").get<int>());
  for (const ordered_json& row : result.at("rows")) {
    text += fmt::format("| {} | {} |\n", row.at("what").get<std::string>(), spread_text(row.at("ns"), 1, 1));
  }
  for (const ordered_json& row : result.at("copies")) {
    text += fmt::format("| memcpy of {} into one slot after the other | {} |\n",
                        bytes_text(row.at("bytes").get<std::size_t>()), spread_text(row.at("ns"), 1, 1));
  }
  return text + pages_table(result.at("copies"));
}

std::vector<chart> ring_charts(const ordered_json& result) {
  chart made{"A slot beside its copy", "payload, bytes", "ns", true, true, {}};
  made.lines.push_back(line_of("memcpy", result.at("copies"), "bytes", "/ns"));
  const std::vector<double> sizes = made.lines.front().x;  // a copy: the lines move when there are more
  for (const ordered_json& row : result.at("rows")) {
    const spread ns = spread_from(row.at("ns"));
    chart_line level{row.at("what").get<std::string>(), {sizes.front(), sizes.back()}, {}, {}, {}};
    level.y = {ns.median, ns.median};
    made.lines.push_back(level);
  }
  return {made};
}

}  // namespace penstock::bench

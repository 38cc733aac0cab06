#include "tests/bench/overlap/overlap_page.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "tests/bench/chart_line.hpp"
#include "tests/bench/page_text.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;

// Within a tenth: then the model holds.
bool equal(const ordered_json& stages) {
  const double copies = stages.at("copy_in").get<double>() + stages.at("copy_out").get<double>();
  const double ratio = 2 * stages.at("compute").get<double>() / copies;
  return 0.9 < ratio && ratio < 1.1;
}

std::string introduction(const ordered_json& result) {
  const ordered_json& stages = result.at("stages_us");
  const bool bare_cuda = result.at("bare_cuda").get<bool>();
  return fmt::format(
      "{} of f32 are copied in, correlated with {} taps and copied out again. One after the other, by the device's "
      "clock, that is {:.0f} + {:.0f} + {:.0f} µs: the taps are chosen at the start so that the kernel takes as long "
      "as a "
      "copy{}. Then the same in N chunks over {} streams: {}; through the daemon's own core (ring, batcher, dispatcher "
      "and "
      "wheel, in this process, the payloads lying in the slots already), with stream callbacks and with polled "
      "completions; and through the whole daemon over ZeroMQ on the loopback address, which the socket limits.\n\n",
      bytes_text(result.at("bytes").get<std::size_t>()), result.at("taps").get<std::size_t>(),
      stages.at("copy_in").get<double>(), stages.at("compute").get<double>(), stages.at("copy_out").get<double>(),
      equal(stages) ? "" : ", which it can't quite here", result.at("streams").get<std::size_t>(),
      bare_cuda ? "by bare CUDA calls"
                : "over the streams of the device seam, which stand here for bare CUDA: this ran without it");
}

std::string serial_rows(const ordered_json& result) {
  std::string rows;
  for (const auto& [key, name] : {std::pair{"pageable", "default stream, pageable memory"},
                                  std::pair{"pinned", "default stream, pinned memory"}}) {
    if (result.contains(key)) {
      rows += fmt::format("| {} | {} | {} |\n", name, spread_text(result.at(key).at("ms")),
                          spread_text(result.at(key).at("speedup")));
    }
  }
  return rows.empty()
             ? rows
             : "| one after the other | ms | speedup over one chunk on one stream |\n|---|---|---|\n" + rows + "\n";
}

double share(const ordered_json& row, const char* way) {
  return 100 * median_of(row.at(way), "of_bare");
}

}  // namespace

std::string overlap_tables(const ordered_json& result) {
  std::string text = facts_line(result) + introduction(result) + serial_rows(result);
  const char* const bare = result.at("bare_cuda").get<bool>() ? "bare CUDA" : "bare streams";
  text += fmt::format(
      "Speedup over one chunk by {}, and the speed beside that of {} with the same chunks:\n\n"
      "| N | 3N/(N+2) | {} | core, callback | core, poll | over ZeroMQ | callback / bare | poll / bare | ZeroMQ / bare "
      "|\n|---|---|---|---|---|---|---|---|---|\n",
      bare, bare, bare);
  for (const ordered_json& row : result.at("rows")) {
    text += fmt::format("| {} | {:.2f} | {} | {} | {} | {} | {:.0f} % | {:.0f} % | {:.0f} % |\n",
                        row.at("chunks").get<std::size_t>(), row.at("model").get<double>(),
                        spread_text(row.at("bare").at("speedup")), spread_text(row.at("callback").at("speedup")),
                        spread_text(row.at("poll").at("speedup")), spread_text(row.at("wire").at("speedup")),
                        share(row, "callback"), share(row, "poll"), share(row, "wire"));
  }
  return text;
}

std::vector<chart> overlap_charts(const ordered_json& result) {
  const ordered_json& rows = result.at("rows");
  chart made{"Speedup over one chunk", "chunks", "speedup", true, false, {}};
  chart_line model{"3N/(N+2)", {}, {}, {}, {}};
  for (const ordered_json& row : rows) {
    model.x.push_back(row.at("chunks").get<double>());
    model.y.push_back(row.at("model").get<double>());
  }
  made.lines.push_back(model);
  for (const auto& [key, name] : {std::pair{"bare", "bare"}, std::pair{"callback", "core, callback"},
                                  std::pair{"poll", "core, poll"}, std::pair{"wire", "over ZeroMQ"}}) {
    made.lines.push_back(line_of(name, rows, "chunks", std::string("/") + key + "/speedup"));
  }
  return {made};
}

std::vector<aim> overlap_aims(const ordered_json& result) {
  if (!ran_on(result, "cuda")) {
    return {};
  }
  std::vector<aim> made;
  for (const auto& [way, name] : {std::pair{"poll", "polled completion"}, std::pair{"callback", "stream callbacks"}}) {
    double least = 1e9;
    for (const ordered_json& row : result.at("rows")) {
      least = std::min(least, share(row, way));
    }
    made.push_back({fmt::format("three equal stages, {}, of bare CUDA's speedup with the same chunks", name), "≥ 95 %",
                    fmt::format("{:.0f} %", least), least >= 95});
  }
  return made;
}

}  // namespace penstock::bench

#include "tests/bench/overlap/overlap_page.hpp"

#include <utility>

#include <fmt/format.h>

#include "tests/bench/chart_line.hpp"
#include "tests/bench/lowest_row.hpp"
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

double share(const ordered_json& row, const char* way, const char* limit = "of_bare") {
  return 100 * median_of(row.at(way), limit);
}

// The way of bare CUDA that is told by callbacks too, where it was measured.
bool has_told(const ordered_json& result) {
  return result.at("rows").at(0).contains("told");
}

}  // namespace

std::string overlap_tables(const ordered_json& result) {
  std::string text = facts_line(result) + introduction(result) + serial_rows(result);
  const char* const bare = result.at("bare_cuda").get<bool>() ? "bare CUDA" : "bare streams";
  const bool told = has_told(result);
  text += fmt::format(
      "Speedup over one chunk by {}, and the speed beside that of {} with the same chunks{}:\n\n"
      "| N | 3N/(N+2) | {} |{} core, callback | core, poll | over ZeroMQ | callback / bare |{} poll / bare | "
      "ZeroMQ / bare |\n|---|---|---|---|---|---|---|---|---|{}\n",
      bare, bare,
      told
          ? "; and beside bare CUDA with a stream callback behind each chunk, whose host sleeps until the last has come"
          : "",
      bare, told ? " bare CUDA, callbacks |" : "", told ? " callback / bare, callbacks |" : "", told ? "---|---|" : "");
  for (const ordered_json& row : result.at("rows")) {
    text += fmt::format("| {} | {:.2f} | {} |{} {} | {} | {} | {:.0f} % |{} {:.0f} % | {:.0f} % |\n",
                        row.at("chunks").get<std::size_t>(), row.at("model").get<double>(),
                        spread_text(row.at("bare").at("speedup")),
                        told ? " " + spread_text(row.at("told").at("speedup")) + " |" : "",
                        spread_text(row.at("callback").at("speedup")), spread_text(row.at("poll").at("speedup")),
                        spread_text(row.at("wire").at("speedup")), share(row, "callback"),
                        told ? fmt::format(" {:.0f} % |", share(row, "callback", "of_told")) : "", share(row, "poll"),
                        share(row, "wire"));
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
  const auto lowest = [&](const char* way, const char* limit) {
    lowest_row found;
    for (const ordered_json& row : result.at("rows")) {
      const auto chunks = row.at("chunks").get<std::size_t>();
      found.take(share(row, way, limit), fmt::format("{}, {} {}", figure_text(row.at(way).at(limit), "%", 100), chunks,
                                                     chunks == 1 ? "chunk" : "chunks"));
    }
    return found;
  };
  const auto aim_of = [](const char* name, const lowest_row& found) {
    return aim{fmt::format("three equal stages, {} with the same chunks", name), "≥ 95 %", found.text,
               found.ratio >= 95, "0018-completion-by-itself"};
  };
  std::vector<aim> made{aim_of("polled completion, of bare CUDA's speedup", lowest("poll", "of_bare")),
                        aim_of("stream callbacks, of bare CUDA's speedup", lowest("callback", "of_bare"))};
  if (has_told(result)) {
    made.push_back(
        aim_of("stream callbacks, of bare CUDA's speedup with stream callbacks", lowest("callback", "of_told")));
  }
  return made;
}

}  // namespace penstock::bench

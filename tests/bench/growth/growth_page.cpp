#include "tests/bench/growth/growth_page.hpp"

#include <optional>

#include <fmt/format.h>

#include "tests/bench/chart_line.hpp"
#include "tests/bench/growth/bend.hpp"
#include "tests/bench/page_text.hpp"
#include "tests/bench/statistics.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;

// Sizes are looked at in bytes a second, everything else in requests a second.
bool of_bytes(const ordered_json& series) {
  return series.at("unit").get<std::string>().ends_with("bytes");
}

std::string x_text(const ordered_json& series, double x) {
  return of_bytes(series) ? bytes_text(static_cast<std::size_t>(x)) : fmt::format("{:.0f}", x);
}

chart_line line_of_series(const ordered_json& series, const char* who) {
  chart_line line = line_of(who, series.at("rows"), "x", std::string("/") + who + "/requests_per_second");
  for (std::size_t at = 0; of_bytes(series) && at < line.x.size(); ++at) {
    line.y[at] *= line.x[at];
    line.least[at] *= line.x[at];
    line.most[at] *= line.x[at];
  }
  return line;
}

std::string bend_text(const ordered_json& series, const char* who) {
  const chart_line line = line_of_series(series, who);
  if (line.x.empty()) {
    return "";
  }
  const auto hoped = series.at("grows").get<bool>() ? expectation::grows : expectation::holds;
  const std::optional<double> bend = bend_of(line.x, line.y, hoped);
  return bend ? fmt::format(" The {} bends at {}.", who, x_text(series, *bend))
              : fmt::format(" The {} does not bend.", who);
}

std::string table_of(const ordered_json& series) {
  const bool echo = series.at("rows").at(0).contains("echo");
  const double scale = of_bytes(series) ? 1e-9 : 1e-3;
  std::string text = fmt::format("\n| {} | daemon, {} |", series.at("name").get<std::string>(),
                                 of_bytes(series) ? "GB/s" : "thousand requests a second") +
                     (echo ? " raw echo | daemon / echo |" : "") + " p50 µs | p99 µs |\n|---|---|" +
                     (echo ? "---|---|" : "") + "---|---|\n";
  for (const ordered_json& row : series.at("rows")) {
    const auto x = row.at("x").get<double>();
    const double times = of_bytes(series) ? scale * x : scale;
    text += fmt::format("| {} | {} |", x_text(series, x),
                        spread_text(row.at("daemon").at("requests_per_second"), times, 3));
    if (echo) {
      text += fmt::format(" {} | {} |", spread_text(row.at("echo").at("requests_per_second"), times, 3),
                          spread_text(row.at("daemon").at("of_limit")));
    }
    text += fmt::format(" {} | {} |\n", spread_text(row.at("daemon").at("latency_p50_us"), 1, 0),
                        spread_text(row.at("daemon").at("latency_p99_us"), 1, 0));
  }
  text += "\n" + bend_text(series, "daemon").substr(1);
  // The echo has neither shards nor streams: beside them it has nothing to bend.
  if (of_bytes(series) || !series.at("grows").get<bool>()) {
    text += bend_text(series, "echo");
  }
  return text + "\n";
}

}  // namespace

std::string growth_tables(const ordered_json& result) {
  std::string text = facts_line(result);
  text += fmt::format(
      "Clients, pipelines, shards and stages: requests of {}, {} in flight together where it does not say otherwise. "
      "Frame sizes: four clients. Streams: a "
      "pipeline that computes far longer than it moves. What should grow with x (streams, shards, bytes a second with "
      "the size) bends at the first step that gains less than half of what proportion would give; what should stay "
      "(clients, pipelines, stages) bends at the first x below two thirds of the most before it.\n",
      bytes_text(result.at("small_bytes").get<std::size_t>()), result.at("in_flight").get<int>());
  for (const ordered_json& series : result.at("series")) {
    text += table_of(series);
  }
  return text;
}

std::vector<chart> growth_charts(const ordered_json& result) {
  std::vector<chart> made;
  for (const ordered_json& series : result.at("series")) {
    chart each{"By " + series.at("name").get<std::string>(),
               series.at("unit").get<std::string>(),
               of_bytes(series) ? "bytes a second" : "requests a second",
               true,
               true,
               {}};
    for (const char* const who : {"echo", "daemon"}) {
      if (chart_line line = line_of_series(series, who); !line.x.empty()) {
        each.lines.push_back(std::move(line));
      }
    }
    made.push_back(std::move(each));
  }
  return made;
}

}  // namespace penstock::bench

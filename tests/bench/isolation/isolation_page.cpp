#include "tests/bench/isolation/isolation_page.hpp"

#include <fmt/format.h>

#include "tests/bench/chart_line.hpp"
#include "tests/bench/page_text.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;

constexpr const char* holders[] = {"stream callback", "host function"};
constexpr const char* observers[] = {"stream callback", "host function", "event polled"};

ordered_json rows_where(const ordered_json& rows, const char* held_by, const char* observer) {
  ordered_json some = ordered_json::array();
  for (const ordered_json& row : rows) {
    if (row.at("held_by") == held_by && row.at("observer") == observer) {
      some.push_back(row);
    }
  }
  return some;
}

}  // namespace

std::string isolation_tables(const ordered_json& result) {
  std::string text = fmt::format(
      "Bare CUDA: on one stream a callback or a host function holds CUDA's thread, once every {} ms. On {} other "
      "streams a batch (copy in, one kernel, copy out; {}) is due every {} µs; its latency counts from then until the "
      "host knows. Late is later than 1 ms.\n\n",
      result.at("hold_period_ms").get<int>(), result.at("streams").get<int>(),
      bytes_text(result.at("bytes").get<std::size_t>()), result.at("pace_us").get<int>());
  text += facts_line(result);
  text +=
      "| held by | for | told by | p50, µs | p99, µs | longest, µs | late, % | longest enqueue, µs |\n"
      "|---|---|---|---|---|---|---|---|\n";
  for (const ordered_json& row : result.at("rows")) {
    const double held_ms = row.at("held_ms").get<double>();
    text += fmt::format(
        "| {} | {} | {} | {} | {} | {} | {} | {} |\n", held_ms == 0 ? "nothing" : row.at("held_by").get<std::string>(),
        fmt::format("{:g} ms", held_ms), row.at("observer").get<std::string>(), spread_text(row.at("p50_us"), 1, 1),
        spread_text(row.at("p99_us"), 1, 0), spread_text(row.at("most_us"), 1, 0), spread_text(row.at("late"), 100, 1),
        spread_text(row.at("submit_most_us"), 1, 0));
  }
  return text;
}

std::vector<chart> isolation_charts(const ordered_json& result) {
  std::vector<chart> charts;
  for (const char* held_by : holders) {
    chart made{fmt::format("Beside a {} that holds", held_by), "held, ms", "p99 of the others, µs", false, true, {}};
    for (const char* observer : observers) {
      made.lines.push_back(line_of(observer, rows_where(result.at("rows"), held_by, observer), "held_ms", "/p99_us"));
    }
    charts.push_back(made);
  }
  return charts;
}

}  // namespace penstock::bench

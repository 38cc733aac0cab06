#include "tests/bench/modes/modes_page.hpp"

#include <cstddef>

#include <fmt/format.h>

#include "tests/bench/chart_line.hpp"
#include "tests/bench/lowest_row.hpp"
#include "tests/bench/page_text.hpp"
#include "tests/bench/paired_ratio.hpp"
#include "tests/bench/statistics.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;

constexpr double worth_telling = 0.95;

bool alone(const ordered_json& row) {
  return row.at("in_flight") == 1;
}

ordered_json select(const ordered_json& rows, bool alone_ones) {
  ordered_json made = ordered_json::array();
  for (const ordered_json& row : rows) {
    if (alone(row) == alone_ones) {
      made.push_back(row);
    }
  }
  return made;
}

std::string name_of(const ordered_json& row) {
  const auto clients = row.at("clients").get<int>();
  return bytes_text(row.at("bytes").get<std::size_t>()) +
         (alone(row) ? ", one at a time" : fmt::format(", {} client{}", clients, clients == 1 ? "" : "s"));
}

std::string table(const ordered_json& rows, const compared_figure& by, double scale, int decimals) {
  std::string text =
      "| payload, clients | callback | poll | another daemon, poll | auto | auto / callback | auto / poll | another, "
      "poll / poll |\n|---|---|---|---|---|---|---|---|\n";
  for (const ordered_json& row : rows) {
    text += "| " + name_of(row) + " |";
    for (const char* const each : {"callback", "poll", "poll_again", "auto"}) {
      text += " " + spread_text(row.at(each).at(by.key), scale, decimals) + " |";
    }
    for (const char* const each : {"auto_to_callback", "auto_to_poll", "poll_again_to_poll"}) {
      text += " " + spread_text(row.at(each), 1, 2) + " |";
    }
    text += "\n";
  }
  return text;
}

// The comparisons of one kind: how many are less beyond chance, and which is the least.
struct comparisons {
  std::size_t count = 0;
  std::size_t less = 0;
  lowest_row least{};

  void take(const ordered_json& row, const char* key, const char* beside) {
    const spread times = spread_from(row.at(key));
    ++count;
    less += times.most < worth_telling ? 1U : 0U;
    least.take(times.median,
               fmt::format("{} times, {}, beside {}", spread_text(row.at(key), 1, 2), name_of(row), beside));
  }
};

}  // namespace

std::string modes_tables(const ordered_json& result) {
  const ordered_json& rows = result.at("rows");
  return facts_line(result) +
         "Daemons that differ in `[device] completion` alone, started anew in each repeat, over tcp and ipc in turn; "
         "the "
         "second one that polls shows what is chance. One `affine` stage on f32. A ratio is how many times as good a "
         "turn "
         "was as the other's of the same repeat: the median, and between which ends it lies by these repeats, wrong in "
         "at "
         "most one of twenty.\n\nThousands of requests a second:\n\n" +
         table(select(rows, false), throughput_figure, 1e-3, 2) + "\nOne request at a time, p50 in µs:\n\n" +
         table(select(rows, true), latency_figure, 1, 0);
}

std::vector<chart> modes_charts(const ordered_json& result) {
  std::vector<chart> made;
  for (const bool alone_ones : {false, true}) {
    ordered_json rows = ordered_json::array();
    for (const ordered_json& row : select(result.at("rows"), alone_ones)) {
      if (row.at("clients") == 1) {
        rows.push_back(row);
      }
    }
    chart drawn{alone_ones ? "One request at a time" : "One client, many in flight",
                "payload, bytes",
                "times as good",
                true,
                false,
                {}};
    drawn.lines.push_back(line_of("auto / callback", rows, "bytes", "/auto_to_callback"));
    drawn.lines.push_back(line_of("auto / poll", rows, "bytes", "/auto_to_poll"));
    drawn.lines.push_back(line_of("another, poll / poll", rows, "bytes", "/poll_again_to_poll"));
    made.push_back(drawn);
  }
  return made;
}

std::vector<aim> modes_aims(const ordered_json& result) {
  comparisons chosen;
  comparisons alike;
  for (const ordered_json& row : result.at("rows")) {
    chosen.take(row, "auto_to_callback", "callback");
    chosen.take(row, "auto_to_poll", "poll");
    alike.take(row, "poll_again_to_poll", "poll");
  }
  return {{"`completion = \"auto\"` beside each of the other two", "nowhere less by 5 %, beyond chance",
           fmt::format("{} of {}, the least {}; of another daemon that polls {} of {}, the least {}", chosen.less,
                       chosen.count, chosen.least.text, alike.less, alike.count, alike.least.text),
           chosen.less == 0, "0018-completion-by-itself"}};
}

}  // namespace penstock::bench

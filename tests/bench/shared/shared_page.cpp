#include "tests/bench/shared/shared_page.hpp"

#include <fmt/format.h>

#include "tests/bench/chart_line.hpp"
#include "tests/bench/lowest_row.hpp"
#include "tests/bench/page_text.hpp"
#include "tests/bench/statistics.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;

std::string rate_table(const ordered_json& rows) {
  std::string text =
      "GB/s each way:\n\n"
      "| frame | in flight | copies both ways | shared memory | ZeroMQ, ipc | shared / copies | ZeroMQ / copies |\n"
      "|---|---|---|---|---|---|---|\n";
  for (const ordered_json& row : rows) {
    text +=
        fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n", bytes_text(row.at("bytes").get<std::size_t>()),
                    row.at("in_flight").get<int>(), spread_text(row.at("limit_gb_per_second")),
                    spread_text(row.at("shared").at("gb_per_second")), spread_text(row.at("zmq").at("gb_per_second")),
                    spread_text(row.at("shared").at("of_limit")), spread_text(row.at("zmq").at("of_limit")));
  }
  return text;
}

std::string alone_table(const ordered_json& rows) {
  std::string text =
      "\nOne request at a time, p50 in µs:\n\n| frame | shared memory | ZeroMQ, ipc | shared − ZeroMQ |\n"
      "|---|---|---|---|\n";
  for (const ordered_json& row : rows) {
    text += fmt::format("| {} | {} | {} | {:+.0f} |\n", bytes_text(row.at("bytes").get<std::size_t>()),
                        spread_text(row.at("shared").at("alone_p50_us"), 1, 0),
                        spread_text(row.at("zmq").at("alone_p50_us"), 1, 0),
                        median_of(row.at("shared"), "alone_p50_us") - median_of(row.at("zmq"), "alone_p50_us"));
  }
  return text;
}

}  // namespace

std::string shared_tables(const ordered_json& result) {
  return facts_line(result) +
         "Frames that a client of the C++ library has written into memory that it shares with the daemon, and the same "
         "client over ZeroMQ; one `affine` stage on f32, so that as many bytes come back as went in. The limit is "
         "copies of pinned memory in and out at the same time, a stream each, with nothing around them.\n\n" +
         rate_table(result.at("rows")) + alone_table(result.at("rows"));
}

std::vector<chart> shared_charts(const ordered_json& result) {
  const ordered_json& rows = result.at("rows");
  chart rates{"Each way, by size", "frame, bytes", "GB/s", true, true, {}};
  rates.lines.push_back(line_of("copies both ways", rows, "bytes", "/limit_gb_per_second"));
  rates.lines.push_back(line_of("shared memory", rows, "bytes", "/shared/gb_per_second"));
  rates.lines.push_back(line_of("ZeroMQ, ipc", rows, "bytes", "/zmq/gb_per_second"));
  chart alone{"One at a time", "frame, bytes", "µs", true, true, {}};
  alone.lines.push_back(line_of("shared memory", rows, "bytes", "/shared/alone_p50_us"));
  alone.lines.push_back(line_of("ZeroMQ, ipc", rows, "bytes", "/zmq/alone_p50_us"));
  return {rates, alone};
}

std::vector<aim> shared_aims(const ordered_json& result) {
  if (!ran_on(result, "cuda")) {
    return {};
  }
  lowest_row lowest;
  for (const ordered_json& row : result.at("rows")) {
    const auto bytes = row.at("bytes").get<std::size_t>();
    if (bytes >= 1U << 20U) {
      const ordered_json& shares = row.at("shared").at("of_limit");
      lowest.take(spread_from(shares).median, figure_text(shares, "%", 100) + ", " + bytes_text(bytes));
    }
  }
  return {{"frames of 1 to 16 MiB in shared memory, each way, of copies both ways", "≥ 90 %", lowest.text,
           lowest.ratio >= 0.9}};
}

}  // namespace penstock::bench

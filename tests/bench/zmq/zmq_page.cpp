#include "tests/bench/zmq/zmq_page.hpp"

#include <fmt/format.h>

#include "tests/bench/chart_line.hpp"
#include "tests/bench/page_text.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;

ordered_json over(const ordered_json& result, const char* transport) {
  ordered_json made = ordered_json::array();
  for (const ordered_json& row : result.at("rows")) {
    if (row.at("transport") == transport) {
      made.push_back(row);
    }
  }
  return made;
}

}  // namespace

std::string zmq_tables(const ordered_json& result) {
  std::string text =
      facts_line(result) +
      "What the sockets alone do on this machine, without Penstock: one DEALER sends to one ROUTER in another process, "
      "which copies each message out once; and the round trip of one message at a time through an echo.\n\n"
      "| transport | message | thousand messages a second | GB/s | round trip p50 µs | p99 µs |\n"
      "|---|---|---|---|---|---|\n";
  for (const ordered_json& row : result.at("rows")) {
    const auto bytes = row.at("bytes").get<std::size_t>();
    text += fmt::format("| {} | {} | {} | {} | {} | {} |\n", row.at("transport").get<std::string>(), bytes_text(bytes),
                        spread_text(row.at("messages_per_second"), 1e-3, 1),
                        spread_text(row.at("messages_per_second"), 1e-9 * static_cast<double>(bytes)),
                        spread_text(row.at("round_trip_p50_us"), 1, 0), spread_text(row.at("round_trip_p99_us"), 1, 0));
  }
  return text;
}

std::vector<chart> zmq_charts(const ordered_json& result) {
  chart rate{"DEALER to ROUTER", "message, bytes", "messages a second", true, true, {}};
  chart trip{"Round trip of one, p50", "message, bytes", "µs", true, true, {}};
  for (const char* const transport : {"tcp", "ipc"}) {
    const ordered_json rows = over(result, transport);
    rate.lines.push_back(line_of(transport, rows, "bytes", "/messages_per_second"));
    trip.lines.push_back(line_of(transport, rows, "bytes", "/round_trip_p50_us"));
  }
  return {rate, trip};
}

}  // namespace penstock::bench

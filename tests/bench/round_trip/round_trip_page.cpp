#include "tests/bench/round_trip/round_trip_page.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "tests/bench/chart_line.hpp"
#include "tests/bench/page_text.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;

double median(const ordered_json& row, const char* who, const char* what) {
  return row.at(who).at(what).at("median").get<double>();
}

double share(const ordered_json& row, const char* who) {
  return 100 * median(row, who, "requests_per_second") / median(row, "echo", "requests_per_second");
}

// The aims that this benchmark can speak of, beside what was reached.
std::string standing(const ordered_json& sizes) {
  const ordered_json& small = sizes.at(0);
  const ordered_json& frame = sizes.at(1);
  double callback = 1e9;
  double poll = 1e9;
  for (std::size_t large = 2; large < sizes.size(); ++large) {
    callback = std::min(callback, share(sizes.at(large), "callback"));
    poll = std::min(poll, share(sizes.at(large), "poll"));
  }
  return fmt::format(
      "\nWhere it stands:\n\n"
      "| aim | callback | poll |\n|---|---|---|\n"
      "| 64 KiB to 1 MiB: at least 90 % of the raw echo, the lower of the two | {:.0f} % | {:.0f} % |\n"
      "| 256 B: at least 80 % of the raw echo (the aim is for many clients, here is one) | {:.0f} % | {:.0f} % |\n"
      "| 4 KiB, one at a time: at most the raw round trip + one batch + 10 µs; beyond the raw round trip | {:.0f} µs | "
      "{:.0f} µs |\n",
      callback, poll, share(small, "callback"), share(small, "poll"),
      median(frame, "callback", "latency_p50_us") - median(frame, "echo", "latency_p50_us"),
      median(frame, "poll", "latency_p50_us") - median(frame, "echo", "latency_p50_us"));
}

}  // namespace

std::string round_trip_tables(const ordered_json& result) {
  std::string text =
      "The limit is a raw ROUTER/DEALER echo over TCP on the loopback address. The pipeline is one `affine` stage on "
      "f32,\nso that as many bytes come back as went in; one client, one frame a request.\n\n" +
      facts_line(result);
  text +=
      "Round trip of one request at a time, p50 in µs:\n\n"
      "| payload | raw echo | daemon, callback | daemon, poll | callback − echo | poll − echo "
      "|\n|---|---|---|---|---|---|\n";
  for (const ordered_json& row : result.at("sizes")) {
    const double echo = median(row, "echo", "latency_p50_us");
    text += fmt::format("| {} | {} | {} | {} | {:+.0f} | {:+.0f} |\n", bytes_text(row.at("bytes").get<std::size_t>()),
                        spread_text(row.at("echo").at("latency_p50_us"), 1, 0),
                        spread_text(row.at("callback").at("latency_p50_us"), 1, 0),
                        spread_text(row.at("poll").at("latency_p50_us"), 1, 0),
                        median(row, "callback", "latency_p50_us") - echo, median(row, "poll", "latency_p50_us") - echo);
  }
  text += fmt::format(
      "\nThroughput with {} requests in flight, thousands a second, and its share of the raw echo:\n\n"
      "| payload | raw echo | daemon, callback | daemon, poll | callback / echo | poll / echo "
      "|\n|---|---|---|---|---|---|\n",
      result.at("in_flight").get<int>());
  for (const ordered_json& row : result.at("sizes")) {
    const double echo = median(row, "echo", "requests_per_second");
    text += fmt::format("| {} | {} | {} | {} | {:.0f} % | {:.0f} % |\n", bytes_text(row.at("bytes").get<std::size_t>()),
                        spread_text(row.at("echo").at("requests_per_second"), 1e-3, 1),
                        spread_text(row.at("callback").at("requests_per_second"), 1e-3, 1),
                        spread_text(row.at("poll").at("requests_per_second"), 1e-3, 1),
                        100 * median(row, "callback", "requests_per_second") / echo,
                        100 * median(row, "poll", "requests_per_second") / echo);
  }
  return text + standing(result.at("sizes"));
}

std::vector<chart> round_trip_charts(const ordered_json& result) {
  chart latency{"Round trip of one request at a time, p50", "payload, bytes", "µs", true, true, {}};
  chart rate{fmt::format("With {} in flight", result.at("in_flight").get<int>()),
             "payload, bytes",
             "requests a second",
             true,
             true,
             {}};
  for (const auto& [key, name] :
       {std::pair{"echo", "raw echo"}, std::pair{"callback", "daemon, callback"}, std::pair{"poll", "daemon, poll"}}) {
    const std::string who = std::string("/") + key;
    latency.lines.push_back(line_of(name, result.at("sizes"), "bytes", who + "/latency_p50_us"));
    rate.lines.push_back(line_of(name, result.at("sizes"), "bytes", who + "/requests_per_second"));
  }
  return {latency, rate};
}

}  // namespace penstock::bench

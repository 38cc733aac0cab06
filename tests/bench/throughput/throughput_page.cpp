#include "tests/bench/throughput/throughput_page.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "tests/bench/chart_line.hpp"
#include "tests/bench/page_text.hpp"
#include "tests/bench/statistics.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;

constexpr std::array<std::pair<const char*, const char*>, 10> contenders{{{"echo", "raw echo"},
                                                                          {"wide_echo", "raw echo, more threads"},
                                                                          {"callback", "daemon, callback"},
                                                                          {"poll", "daemon, poll"},
                                                                          {"auto", "daemon, auto"},
                                                                          {"poll_two_shards", "daemon, poll, 2 shards"},
                                                                          {"hand", "by hand"},
                                                                          {"hand_callback", "by hand, callback"},
                                                                          {"hand_poll", "by hand, poll"},
                                                                          {"hand_mapped", "by hand, mapped"}}};

ordered_json select(const ordered_json& rows, const std::string& transport, std::size_t clients) {
  ordered_json made = ordered_json::array();
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(made), [&](const ordered_json& row) {
    return row.at("transport") == transport && row.at("clients") == clients;
  });
  return made;
}

std::string head_of(const ordered_json& row, const std::string& first, const char* sign) {
  std::string names = "| " + first + " |";
  std::string lines = "|---|";
  for (const auto& [key, name] : contenders) {
    if (row.contains(key)) {
      names += std::string(" ") + name + " |";
      lines += "---|";
    }
  }
  return names + fmt::format(" callback {0} echo | poll {0} echo |\n", sign) + lines + "---|---|\n";
}

std::string row_of(const ordered_json& row, const std::string& first, const char* figure, double scale, int decimals) {
  std::string text = "| " + first + " |";
  for (const auto& [key, name] : contenders) {
    if (row.contains(key)) {
      text += " " + spread_text(row.at(key).at(figure), scale, decimals) + " |";
    }
  }
  return text;
}

std::string shares(const ordered_json& row) {
  return fmt::format(" {} | {} |\n", spread_text(row.at("callback").at("of_limit"), 1, 2),
                     spread_text(row.at("poll").at("of_limit"), 1, 2));
}

std::string differences(const ordered_json& row) {
  const double echo = median_of(row.at("echo"), "latency_p50_us");
  return fmt::format(" {:+.0f} | {:+.0f} |\n", median_of(row.at("callback"), "latency_p50_us") - echo,
                     median_of(row.at("poll"), "latency_p50_us") - echo);
}

std::string rate_table(const ordered_json& rows) {
  std::string text = fmt::format(
      "\nThousands of requests a second over {}, {} client{} ({} in flight for the smallest, "
      "{} for the largest):\n\n",
      rows.at(0).at("transport").get<std::string>(), rows.at(0).at("clients").get<int>(),
      rows.at(0).at("clients") == 1 ? "" : "s", rows.front().at("in_flight").get<int>(),
      rows.back().at("in_flight").get<int>());
  text += head_of(rows.at(0), "payload", "/");
  for (const ordered_json& row : rows) {
    text += row_of(row, bytes_text(row.at("bytes").get<std::size_t>()), "requests_per_second", 1e-3, 2) + shares(row);
  }
  return text;
}

std::string record_table(const ordered_json& result) {
  const auto records = result.at("records_a_request").get<double>();
  std::string text = fmt::format(
      "\nSmall records of {}, {} to a request, one result each. Thousands of records a second; the aim is a million "
      "for "
      "each shard:\n\n",
      bytes_text(result.at("record_bytes").get<std::size_t>()), result.at("records_a_request").get<int>());
  text += head_of(result.at("records").at(0), "transport, clients", "/");
  for (const ordered_json& row : result.at("records")) {
    const std::string first =
        fmt::format("{}, {}", row.at("transport").get<std::string>(), row.at("clients").get<int>());
    text += row_of(row, first, "requests_per_second", records * 1e-3, 0) + shares(row);
  }
  return text;
}

std::string latency_table(const ordered_json& result) {
  std::string text =
      "\nOne request at a time, p50 in µs:\n\n" + head_of(result.at("one_at_a_time").at(0), "transport, payload", "−");
  for (const ordered_json& row : result.at("one_at_a_time")) {
    const std::string first =
        row.at("transport").get<std::string>() + ", " + bytes_text(row.at("bytes").get<std::size_t>());
    text += row_of(row, first, "latency_p50_us", 1, 0) + differences(row);
  }
  return text;
}

}  // namespace

std::string throughput_tables(const ordered_json& result) {
  std::string text =
      facts_line(result) +
      "The pipeline is one `affine` stage on f32: as many bytes come back as went in. The raw echo is a ROUTER that "
      "sends each message straight back, with one I/O thread, as libzmq has unless it is told otherwise; where the "
      "daemon takes more by itself, one with as many stands beside it. The server by hand has no features: one request "
      "a launch, eight streams, no batching; \"mapped\" has one kernel read and write host memory and set a word there "
      "that the server looks at; on the host backend it computes before it receives again, so that there a "
      "launch costs it nothing and batching can gain nothing: 5 times it is the aim on a GPU. All are driven by the "
      "same load generator, and get the same messages: up to 4 KiB of payload in one part with the headers, more in a "
      "part of its own.\n";
  for (const char* const transport : {"tcp", "ipc"}) {
    for (const std::size_t clients : {1U, 32U}) {
      if (const ordered_json rows = select(result.at("rows"), transport, clients); !rows.empty()) {
        text += rate_table(rows);
      }
    }
  }
  return text + record_table(result) + latency_table(result);
}

std::vector<chart> throughput_charts(const ordered_json& result) {
  std::vector<chart> made;
  for (const char* const transport : {"tcp", "ipc"}) {
    for (const std::size_t clients : {1U, 32U}) {
      const ordered_json rows = select(result.at("rows"), transport, clients);
      chart each{fmt::format("{}, {} client{}", transport, clients, clients == 1 ? "" : "s"),
                 "payload, bytes",
                 "requests a second",
                 true,
                 true,
                 {}};
      for (const auto& [key, name] : contenders) {
        if (!rows.empty() && rows.at(0).contains(key)) {
          each.lines.push_back(line_of(name, rows, "bytes", std::string("/") + key + "/requests_per_second"));
        }
      }
      if (!each.lines.empty()) {
        made.push_back(each);
      }
    }
  }
  return made;
}

}  // namespace penstock::bench

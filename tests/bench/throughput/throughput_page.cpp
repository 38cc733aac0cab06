#include "tests/bench/throughput/throughput_page.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
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

constexpr const char* two_shards = "poll_two_shards";

double rate(const ordered_json& row, const char* who) {
  return median_of(row.at(who), "requests_per_second");
}

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

double speed(const ordered_json& row, const char* who) {
  return 1 / median_of(row.at(who), "latency_p50_us");
}

using figure = double (*)(const ordered_json& row, const char* who);

// The best of those contenders that the row has.
double best(const ordered_json& row, std::initializer_list<const char*> of, figure what) {
  double most = 0;
  for (const char* const each : of) {
    most = row.contains(each) ? std::max(most, what(row, each)) : most;
  }
  return most;
}

double daemon(const ordered_json& row, figure what) {
  return best(row, {"callback", "poll", "auto"}, what);
}

double beside_hand(const ordered_json& row, figure what) {
  return daemon(row, what) / best(row, {"hand", "hand_callback", "hand_poll"}, what);
}

// The lowest of its shares, of those rows that have it.
struct beside_mapped {
  double least = 1e9;

  void take(const ordered_json& row, figure what) {
    if (row.contains("hand_mapped")) {
      least = std::min(least, daemon(row, what) / what(row, "hand_mapped"));
    }
  }
  [[nodiscard]] bool known() const noexcept { return least < 1e9; }
};

// The mode that chooses beside the better of the two that it chooses from.
double beside_better(const ordered_json& row, figure what) {
  return what(row, "auto") / best(row, {"callback", "poll"}, what);
}

aim aim_of_auto(const ordered_json& result) {
  std::vector<double> shares;
  for (const ordered_json& row : result.at("rows")) {
    shares.push_back(beside_better(row, rate));
  }
  for (const ordered_json& row : result.at("one_at_a_time")) {
    shares.push_back(beside_better(row, speed));
  }
  const spread all = spread_of(shares);
  return {"`completion = \"auto\"` beside the better of the other two", "never less, but for noise of 5 %",
          fmt::format("{:.2f} times (from {:.2f} to {:.2f})", all.median, all.least, all.most), all.least >= 0.95};
}

// The lowest shares of an echo that the rows of an aim have, with one shard and with two.
struct lowest_shares {
  const char* echo;
  double one = 1e9;
  double two = 1e9;

  void take(const ordered_json& row) {
    if (row.contains(echo)) {
      one = std::min(one, daemon(row, rate) / rate(row, echo));
      two = std::min(two, row.contains(two_shards) ? rate(row, two_shards) / rate(row, echo) : 1e9);
    }
  }
  [[nodiscard]] std::string text() const {
    return two < 1e9 ? fmt::format("{:.0f} % with one shard, {:.0f} % with two", 100 * one, 100 * two)
                     : fmt::format("{:.0f} %", 100 * one);
  }
};

// Of the echo that libzmq gives whoever asks for nothing, and of one with as many I/O threads as the daemon takes.
struct echo_shares {
  lowest_shares plain{"echo"};
  lowest_shares wide{"wide_echo"};

  void take(const ordered_json& row) {
    plain.take(row);
    wide.take(row);
  }
  [[nodiscard]] std::string text() const {
    return plain.text() + (wide.one < 1e9 ? "; of one with as many I/O threads " + wide.text() : "");
  }
};

std::vector<aim> aims_on_a_gpu(const ordered_json& result) {
  echo_shares large;
  echo_shares small;
  double by_hand = 1e9;
  beside_mapped by_mapped;
  beside_mapped single_mapped;
  for (const ordered_json& row : result.at("rows")) {
    const auto bytes = row.at("bytes").get<std::size_t>();
    if (bytes >= 65536 && bytes <= 1U << 20U) {
      large.take(row);
    }
    if (bytes == 256 && row.at("clients") > 1) {
      small.take(row);
      by_hand = std::min(by_hand, beside_hand(row, rate));
      by_mapped.take(row, rate);
    }
  }
  double records = 1e12;
  for (const ordered_json& row : result.at("records")) {
    records = std::min(records, daemon(row, rate) * result.at("records_a_request").get<double>());
  }
  double single = 1e9;
  for (const ordered_json& row : result.at("one_at_a_time")) {
    single = std::min(single, beside_hand(row, speed));
    single_mapped.take(row, speed);
  }
  std::vector<aim> made{
      {"64 KiB to 1 MiB over ZeroMQ, of the raw echo", "≥ 90 %", large.text(), large.plain.one >= 0.9},
      {"256 B, many clients, of the raw echo", "≥ 80 %", small.text(), small.plain.one >= 0.8},
      {"256 B, many clients, of the server by hand (the better of callback and polled)", "≥ 5 times",
       fmt::format("{:.1f} times", by_hand), by_hand >= 5},
      {"256 B records, several to a request, one result each, a shard", "≥ 1 M/s",
       fmt::format("{:.2f} M/s", 1e-6 * records), records >= 1e6},
      {"one request at a time, beside the server by hand (the better of callback and polled)", "≤ 10 % longer",
       fmt::format("{:+.0f} %", 100 * (1 / single - 1)), single >= 1 / 1.1}};
  if (by_mapped.known()) {
    made.push_back({"256 B, many clients, of the server by hand with mapped memory and a flag", "≥ 5 times",
                    fmt::format("{:.1f} times", by_mapped.least), by_mapped.least >= 5});
    made.push_back({"one request at a time, beside the server by hand with mapped memory and a flag", "≤ 10 % longer",
                    fmt::format("{:+.0f} %", 100 * (1 / single_mapped.least - 1)), single_mapped.least >= 1 / 1.1});
  }
  if (result.at("rows").at(0).contains("auto")) {
    made.push_back(aim_of_auto(result));
  }
  return made;
}

std::vector<aim> aims_on_the_host(const ordered_json& result) {
  std::vector<double> shares;
  for (const char* const rows : {"rows", "records"}) {
    for (const ordered_json& row : result.at(rows)) {
      shares.push_back(rate(row, "callback") / rate(row, "echo"));
    }
  }
  constexpr double wanted = 0.7;
  const auto good = std::count_if(shares.begin(), shares.end(), [](double share) { return share >= wanted; });
  const spread all = spread_of(shares);
  return {{"host backend, memory-light pipeline, of the raw echo", "≥ 70 %",
           fmt::format("{:.0f} to {:.0f} %, {} of {} rows", 100 * all.least, 100 * all.most, good, shares.size()),
           all.least >= wanted}};
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
      "same load generator.\n";
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

std::vector<aim> throughput_aims(const ordered_json& result) {
  return ran_on(result, "cuda") ? aims_on_a_gpu(result) : aims_on_the_host(result);
}

}  // namespace penstock::bench

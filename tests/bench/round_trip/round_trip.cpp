#include "tests/bench/round_trip/round_trip.hpp"

#include <cstdio>
#include <memory>

#include <fmt/format.h>

#include "tests/bench/echo_server.hpp"
#include "tests/bench/load.hpp"
#include "tests/bench/machine.hpp"
#include "tests/bench/statistics.hpp"
#include "tests/support/daemon_process.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;
using std::chrono::milliseconds;

constexpr std::size_t payload_sizes[] = {256, 4096, 65536, std::size_t{1} << 20U};
constexpr std::size_t in_flight = 32;

const char* text_of(std::size_t bytes) {
  return bytes == 256 ? "256 B" : bytes == 4096 ? "4 KiB" : bytes == 65536 ? "64 KiB" : "1 MiB";
}

// One pipeline for each size; y = 2·x + 1, so that as many bytes come back as went in.
std::string configuration() {
  std::string text = "config_version = 1\n[daemon]\nlog_level = \"warn\"\n[clients]\ncredit_bytes = \"256 MiB\"\n";
  for (const std::size_t bytes : payload_sizes) {
    text += fmt::format(
        "[[pipeline]]\nname = \"affine{}\"\ninput = {{ dtype = \"f32\", shape = [{}] }}\n"
        "[[pipeline.stage]]\nname = \"y\"\nop = \"affine\"\na = 2.0\nb = 1.0\n",
        bytes, bytes / sizeof(float));
  }
  return text;
}

// One way for a request to go, and its figures by size.
struct contender {
  std::string name;
  std::string endpoint;
  bool daemon = false;
  std::vector<std::vector<load_result>> one;  // by size, then repeat
  std::vector<std::vector<load_result>> many;
};

void measure(contender& who, std::size_t size_index, bool quick) {
  const std::size_t bytes = payload_sizes[size_index];
  load_client client(who.endpoint, static_cast<std::uint32_t>(size_index), bytes / sizeof(float), who.daemon);
  const std::size_t ones = quick ? 200 : 2000;
  const auto limit = milliseconds{quick ? 200 : 1000};
  client.run(in_flight, 200, limit);  // warm
  who.one[size_index].push_back(client.run(1, ones, limit));
  who.many[size_index].push_back(client.run(in_flight, 10'000'000, limit));
}

template <typename Member>
ordered_json column(const std::vector<load_result>& runs, Member member) {
  std::vector<double> values;
  for (const load_result& run : runs) {
    values.push_back(run.*member);
  }
  return to_json(spread_of(values));
}

ordered_json figures(const contender& who, std::size_t size_index) {
  return {{"latency_p50_us", column(who.one[size_index], &load_result::p50_us)},
          {"latency_p99_us", column(who.one[size_index], &load_result::p99_us)},
          {"requests_per_second", column(who.many[size_index], &load_result::requests_per_second)}};
}

}  // namespace

ordered_json run_round_trip(const bench_options& options) {
  using testing::daemon_process;
  using testing::free_tcp_endpoint;
  const echo_server echo(free_tcp_endpoint());
  daemon_process by_callback({options.backend, "callback", configuration(), free_tcp_endpoint()});
  daemon_process by_poll({options.backend, "poll", configuration(), free_tcp_endpoint()});
  const std::size_t sizes = std::size(payload_sizes);
  std::vector<contender> contenders;
  contenders.push_back({"echo", echo.endpoint(), false, {}, {}});
  contenders.push_back({"callback", by_callback.endpoint(), true, {}, {}});
  contenders.push_back({"poll", by_poll.endpoint(), true, {}, {}});
  for (contender& each : contenders) {
    each.one.resize(sizes);
    each.many.resize(sizes);
  }
  for (std::size_t size = 0; size < sizes; ++size) {
    for (int repeat = 0; repeat < options.repeats; ++repeat) {
      for (contender& each : contenders) {
        measure(each, size, options.quick);
      }
      std::fprintf(stderr, "\rround trip: %s, repeat %d of %d   ", text_of(payload_sizes[size]), repeat + 1,
                   options.repeats);
    }
  }
  std::fputc('\n', stderr);
  ordered_json result = {
      {"benchmark", "round-trip"},  {"machine", machine_facts()}, {"device", device_of(by_callback.endpoint())},
      {"repeats", options.repeats}, {"in_flight", in_flight},     {"sizes", ordered_json::array()}};
  for (std::size_t size = 0; size < sizes; ++size) {
    ordered_json row = {{"bytes", payload_sizes[size]}};
    for (const contender& each : contenders) {
      row[each.name] = figures(each, size);
    }
    result["sizes"].push_back(row);
  }
  return result;
}

}  // namespace penstock::bench

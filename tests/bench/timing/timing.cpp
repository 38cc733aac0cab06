#include "tests/bench/timing/timing.hpp"

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "daemon/settings/settings.hpp"
#include "tests/bench/load.hpp"
#include "tests/bench/machine.hpp"
#include "tests/bench/statistics.hpp"
#include "tests/support/daemon_process.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;
using std::chrono::milliseconds;

constexpr std::size_t floats = 64;
constexpr std::size_t in_flight = 64;
constexpr std::size_t any_number = 100'000'000;
constexpr milliseconds turn_span{50};  // short, so that what else the machine does falls on all rates alike

struct rate {
  const char* name;
  unsigned batches_per_second;
  std::vector<double> requests_per_second{};
};

std::string configuration(unsigned batches_per_second) {
  return fmt::format(
      "config_version = 1\n[daemon]\nlog_level = \"warn\"\n[timing]\nbatches_per_second = {}\n"
      "[[pipeline]]\nname = \"y\"\ninput = {{ dtype = \"f32\", shape = [{}] }}\n"
      "[[pipeline.stage]]\nname = \"y\"\nop = \"affine\"\na = 2.0\nb = 1.0\n",
      batches_per_second, floats);
}

}  // namespace

ordered_json run_timing(const bench_options& options) {
  // The daemon reads the events of so many batches as 0.5 % of its thread allows, however many are asked for.
  std::vector<rate> rates{
      {"off", 0}, {"default", timing_settings{}.batches_per_second}, {"500 a second", 500}, {"every", 1'000'000}};
  // One daemon and one connection for all: two of a kind differ by more than what is looked for.
  const rate& at_start = rates[1];
  testing::daemon_process daemon(
      {options.backend, "poll", configuration(at_start.batches_per_second), testing::free_tcp_endpoint()});
  load_client client(daemon.endpoint(), 0, floats, true);
  const int rounds = options.quick ? 6 : 60;
  const rate* now = &at_start;
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    std::vector<double> sums(rates.size());
    for (int round = 0; round < rounds; ++round) {
      for (std::size_t turn = 0; turn < rates.size(); ++turn) {
        const std::size_t at = (static_cast<std::size_t>(round) + turn) % rates.size();
        if (std::exchange(now, &rates[at]) != &rates[at]) {
          daemon.reload(configuration(rates[at].batches_per_second));
        }
        client.run(in_flight, any_number, turn_span / 5);
        sums[at] += client.run(in_flight, any_number, turn_span).requests_per_second;
      }
    }
    for (std::size_t at = 0; at < rates.size(); ++at) {
      rates[at].requests_per_second.push_back(sums[at] / rounds);
    }
    std::fprintf(stderr, "\rtiming: repeat %d of %d   ", repeat + 1, options.repeats);
  }
  std::fputc('\n', stderr);
  const std::vector<double>& off = rates.front().requests_per_second;
  ordered_json result = {
      {"benchmark", "timing"},      {"machine", machine_facts()},   {"device", device_of(daemon.endpoint())},
      {"repeats", options.repeats}, {"in_flight", in_flight},       {"bytes", floats * sizeof(float)},
      {"one_daemon", true},         {"rows", ordered_json::array()}};
  for (const rate& each : rates) {
    result["rows"].push_back({{"timing", each.name},
                              {"batches_per_second", each.batches_per_second},
                              {"requests_per_second", to_json(spread_of(each.requests_per_second))},
                              {"ratio", to_json(spread_of(ratios(each.requests_per_second, off)))}});
  }
  return result;
}

}  // namespace penstock::bench

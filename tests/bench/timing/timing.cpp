#include "tests/bench/timing/timing.hpp"

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>
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

struct contender {
  const char* name;
  unsigned batches_per_second;
  std::vector<double> requests_per_second;
  std::unique_ptr<testing::daemon_process> daemon;
  std::unique_ptr<load_client> client;
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
  std::vector<contender> contenders;
  contenders.push_back({"off", 0, {}, nullptr, nullptr});
  contenders.push_back({"default", timing_settings{}.batches_per_second, {}, nullptr, nullptr});
  contenders.push_back({"500 a second", 500, {}, nullptr, nullptr});
  contenders.push_back({"every", 1'000'000, {}, nullptr, nullptr});
  for (contender& each : contenders) {
    each.daemon = std::make_unique<testing::daemon_process>(testing::daemon_options{
        options.backend, "poll", configuration(each.batches_per_second), testing::free_tcp_endpoint()});
    each.client = std::make_unique<load_client>(each.daemon->endpoint(), 0, floats, true);
    each.client->run(in_flight, 2000, milliseconds{500});
  }
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    for (std::size_t turn = 0; turn < contenders.size(); ++turn) {
      contender& each = contenders[(static_cast<std::size_t>(repeat) + turn) % contenders.size()];
      each.requests_per_second.push_back(
          each.client->run(in_flight, any_number, milliseconds{options.quick ? 300 : 3000}).requests_per_second);
    }
    std::fprintf(stderr, "\rtiming: repeat %d of %d   ", repeat + 1, options.repeats);
  }
  std::fputc('\n', stderr);
  const std::vector<double>& off = contenders.front().requests_per_second;
  ordered_json result = {{"benchmark", "timing"},
                         {"machine", machine_facts()},
                         {"device", device_of(contenders.front().daemon->endpoint())},
                         {"repeats", options.repeats},
                         {"in_flight", in_flight},
                         {"bytes", floats * sizeof(float)},
                         {"rows", ordered_json::array()}};
  for (const contender& each : contenders) {
    result["rows"].push_back({{"timing", each.name},
                              {"batches_per_second", each.batches_per_second},
                              {"requests_per_second", to_json(spread_of(each.requests_per_second))},
                              {"ratio", to_json(spread_of(ratios(each.requests_per_second, off)))}});
  }
  return result;
}

}  // namespace penstock::bench

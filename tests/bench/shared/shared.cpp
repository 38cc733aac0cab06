#include "tests/bench/shared/shared.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <vector>

#include "tests/bench/affine_configuration.hpp"
#include "tests/bench/endpoint_source.hpp"
#include "tests/bench/machine.hpp"
#include "tests/bench/shared/both_ways.hpp"
#include "tests/bench/shared/lent_loop.hpp"
#include "tests/bench/statistics.hpp"
#include "tests/support/daemon_process.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;
using std::chrono::milliseconds;

constexpr std::size_t sizes[] = {4096, 16384, 65536, 262144, 1U << 20U, 4U << 20U, 16U << 20U};
constexpr std::size_t bytes_in_flight = 128U << 20U;
constexpr std::size_t limit_bytes = 256U << 20U;  // walked through, so that it does not stay in the processor's cache
constexpr std::size_t most_copies = 2000;

std::size_t in_flight_of(std::size_t bytes) {
  return std::clamp<std::size_t>(bytes_in_flight / bytes, 8, 64);
}

/// What one way of sending did, repeat by repeat.
struct figures {
  std::vector<double> gb_per_second;
  std::vector<double> of_limit;
  std::vector<double> alone_p50_us;  // one request at a time

  void add(double rate, double limit, double p50_us) {
    gb_per_second.push_back(rate);
    of_limit.push_back(rate / limit);
    alone_p50_us.push_back(p50_us);
  }
  [[nodiscard]] ordered_json to_json() const {
    return {{"gb_per_second", bench::to_json(spread_of(gb_per_second))},
            {"of_limit", bench::to_json(spread_of(of_limit))},
            {"alone_p50_us", bench::to_json(spread_of(alone_p50_us))}};
  }
};

/// A client that fills the daemon and one that has it to itself, both sending in one way.
struct pair_of_clients {
  pair_of_clients(const std::string& endpoint, transport how, std::size_t bytes)
      : bytes_(bytes),
        many({.endpoint = endpoint, .transport = how, .bytes = bytes, .in_flight = in_flight_of(bytes)}),
        one({.endpoint = endpoint, .transport = how, .bytes = bytes}) {}

  void turn(milliseconds span, double limit, figures& into) {
    const double rate = many.run(span).requests_per_second * static_cast<double>(bytes_) * 1e-9;
    into.add(rate, limit, one.run(span / 4).latency_p50_us);
  }
  void warm_up(milliseconds span) {
    (void)many.run(span);
    (void)one.run(span);
  }

  std::size_t bytes_;
  lent_loop many;
  lent_loop one;
};

ordered_json measure(std::size_t bytes, both_ways& limit, ordered_json& device, const bench_options& options) {
  endpoint_source endpoints;
  const testing::daemon_process daemon({options.backend, options.backend == "cuda" ? "poll" : "callback",
                                        affine_configuration{.floats = {bytes / sizeof(float)}}.text(),
                                        endpoints.ipc()});
  device = device_of(daemon.endpoint());
  pair_of_clients shared(daemon.endpoint(), transport::shared_memory, bytes);
  pair_of_clients sent(daemon.endpoint(), transport::zmq, bytes);
  const milliseconds span = options.turn();
  shared.warm_up(span / 4);
  sent.warm_up(span / 4);
  const std::size_t copies = std::clamp<std::size_t>(2 * limit_bytes / bytes, 2, most_copies);
  std::vector<double> limits;
  figures by_shared;
  figures by_sent;
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    limits.push_back(limit.gb_per_second(bytes, copies));
    shared.turn(span, limits.back(), by_shared);
    sent.turn(span, limits.back(), by_sent);
  }
  return {{"bytes", bytes},
          {"in_flight", in_flight_of(bytes)},
          {"limit_gb_per_second", to_json(spread_of(limits))},
          {"shared", by_shared.to_json()},
          {"zmq", by_sent.to_json()}};
}

}  // namespace

ordered_json run_shared(const bench_options& options) {
  ordered_json result = {{"benchmark", "shared"},
                         {"machine", machine_facts()},
                         {"device", nullptr},
                         {"repeats", options.repeats},
                         {"rows", ordered_json::array()}};
  both_ways limit(options.backend, limit_bytes);
  for (const std::size_t bytes : sizes) {
    std::fprintf(stderr, "\rshared: %zu bytes   ", bytes);
    result["rows"].push_back(measure(bytes, limit, result["device"], options));
  }
  std::fputc('\n', stderr);
  return result;
}

}  // namespace penstock::bench

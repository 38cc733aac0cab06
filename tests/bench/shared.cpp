#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <vector>

#include "tests/bench/benchmarks.hpp"
#include "tests/bench/servers.hpp"
#include "tests/bench/shared_loop.hpp"
#include "tests/bench/workloads.hpp"
#include "tests/support/daemon_process.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;
using std::chrono::milliseconds;

constexpr std::size_t sizes[] = {4096, 16384, 65536, 262144, 1U << 20U, 4U << 20U, 16U << 20U};
constexpr std::size_t bytes_in_flight = 128U << 20U;
constexpr std::size_t limit_bytes = 256U << 20U;  // larger than the processor's cache
constexpr std::size_t most_copies = 2000;

std::size_t in_flight_of(std::size_t bytes) {
  return std::clamp<std::size_t>(bytes_in_flight / bytes, 8, 64);
}

/// Figures of one transport, repeat by repeat.
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

/// A client with many frames in flight and one with a single frame, over one transport.
struct pair_of_clients {
  pair_of_clients(const std::string& endpoint, transport kind, std::size_t bytes)
      : bytes_(bytes),
        many({.endpoint = endpoint, .transport = kind, .bytes = bytes, .in_flight = in_flight_of(bytes)}),
        one({.endpoint = endpoint, .transport = kind, .bytes = bytes}) {}

  void turn(milliseconds span, double limit, figures& into) {
    const double rate = many.run(span).requests_per_second * static_cast<double>(bytes_) * 1e-9;
    into.add(rate, limit, one.run(span / 4).latency_p50_us);
  }
  void warm_up(milliseconds span) {
    (void)many.run(span);
    (void)one.run(span);
  }

  std::size_t bytes_;
  shared_loop many;
  shared_loop one;
};

ordered_json measure(std::size_t bytes, two_way_copies& limit, ordered_json& device, const bench_options& options) {
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
    limits.push_back(limit.at_once(bytes, copies));
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

// Frames in shared memory and over ZeroMQ by the C++ client, beside copies of as many bytes both ways at once.
ordered_json run_shared(const bench_options& options) {
  ordered_json result = new_result("shared", options, nullptr);
  two_way_copies limit(options.backend, limit_bytes);
  for (const std::size_t bytes : sizes) {
    std::fprintf(stderr, "\rshared: %zu bytes   ", bytes);
    result["rows"].push_back(measure(bytes, limit, result["device"], options));
  }
  std::fputc('\n', stderr);
  return result;
}

}  // namespace penstock::bench

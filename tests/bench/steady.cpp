#include <chrono>
#include <cstdio>
#include <functional>
#include <future>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/bench/benchmarks.hpp"
#include "tests/bench/closed_loop.hpp"
#include "tests/bench/servers.hpp"
#include "tests/bench/shared_loop.hpp"
#include "tests/bench/workloads.hpp"
#include "tests/support/daemon_process.hpp"
#include "tests/support/raw_peer.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;
using std::chrono::milliseconds;
using clock = std::chrono::steady_clock;

constexpr std::size_t small_bytes = 4096;
constexpr std::size_t large_bytes = std::size_t{256} << 10U;  // its outputs are sent from the slots themselves
constexpr std::size_t clients = 8;
constexpr std::size_t shared_in_flight = 4;
// What resident memory may gain: fluctuation of the allocator and the kernel.
constexpr double resident_share = 0.01;
constexpr double resident_room_mib = 1;
// What must not change at all may gain a tenth of a MiB or of a file: numbers are rounded.
constexpr double rounding = 0.1;

double mebibytes(std::size_t bytes) {
  return static_cast<double>(bytes) / (1U << 20U);
}

struct series {
  std::vector<double> seconds;
  std::vector<double> resident_mib;
  std::vector<double> pinned_mib;
  std::vector<double> device_mib;
  std::vector<double> open_files;
};

std::size_t shared_bytes(const nlohmann::json& status) {
  return status.at("shared_memory").at("bytes").get<std::size_t>();
}

// The memory of a client that has gone is reclaimed some time later.
void await_reclaimed(testing::raw_peer& status_peer, std::size_t at_rest) {
  const clock::time_point limit = clock::now() + std::chrono::seconds{20};
  while (shared_bytes(status_peer.status()) != at_rest) {
    if (clock::now() > limit) {
      throw std::runtime_error("the memory of a client that has gone was not reclaimed");
    }
    std::this_thread::sleep_for(milliseconds{20});
  }
}

// Samples the daemon's resources. After each sample `visit` runs: a client that comes and goes.
series watch(const testing::daemon_process& daemon, milliseconds span, milliseconds every,
             const std::function<void()>& visit) {
  series samples;
  testing::raw_peer status_peer(daemon.endpoint());
  const std::size_t at_rest = shared_bytes(status_peer.status());
  const clock::time_point begin = clock::now();
  for (clock::time_point at = begin + every; at < begin + span; at += every) {
    std::this_thread::sleep_until(at);
    await_reclaimed(status_peer, at_rest);
    const process_usage usage = usage_of(daemon.pid());
    const nlohmann::json status = status_peer.status();
    const nlohmann::json& device = status.at("device");
    samples.seconds.push_back(std::chrono::duration<double>(at - begin).count());
    samples.resident_mib.push_back(mebibytes(usage.resident_bytes));
    samples.pinned_mib.push_back(mebibytes(device.at("pinned_bytes").get<std::size_t>() + shared_bytes(status)));
    samples.device_mib.push_back(mebibytes(device.at("memory_bytes").get<std::size_t>()));
    samples.open_files.push_back(static_cast<double>(usage.open_files));
    std::fprintf(stderr, "\rsteady: %.0f s   ", samples.seconds.back());
    visit();
  }
  std::fputc('\n', stderr);
  return samples;
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// What a straight line through the points (least squares) gains from the first x to the last.
double gain_of(const std::vector<double>& x, const std::vector<double>& y) {
  if (x.size() < 2) {
    return 0;
  }
  const double x_mean = mean(x);
  const double y_mean = mean(y);
  double products = 0;
  double squares = 0;
  for (std::size_t at = 0; at < x.size(); ++at) {
    products += (x[at] - x_mean) * (y[at] - y_mean);
    squares += (x[at] - x_mean) * (x[at] - x_mean);
  }
  return products / squares * (x.back() - x.front());
}

// Whether a series stays flat after its warm-up, the first fifth: it gains at most `share` of its mean and `room`.
ordered_json flatness_of(const std::vector<double>& x, const std::vector<double>& y, double share, double room) {
  const auto warm = static_cast<std::ptrdiff_t>(x.size() / 5);
  const std::vector<double> later(y.begin() + warm, y.end());
  const double gain = gain_of({x.begin() + warm, x.end()}, later);
  const double margin = later.empty() ? room : share * mean(later) + room;
  return {{"gain", gain}, {"margin", margin}, {"flat", gain <= margin}};
}

}  // namespace

// Memory and open files of a daemon at full load, with clients that come and go. "passed" is false if any of them
// grows.
ordered_json run_steady(const bench_options& options) {
  endpoint_source endpoints;
  const affine_configuration shape{.floats = {small_bytes / sizeof(float), large_bytes / sizeof(float)}};
  const testing::daemon_process daemon({options.backend, "callback", shape.text(), endpoints.tcp()});
  const milliseconds span{options.quick ? 4000 : static_cast<std::int64_t>(options.minutes * 60'000)};
  closed_loop small(
      {.endpoint = daemon.endpoint(), .floats = small_bytes / sizeof(float), .clients = clients, .in_flight = 32});
  closed_loop large({.endpoint = daemon.endpoint(),
                     .pipeline = 1,
                     .floats = large_bytes / sizeof(float),
                     .clients = clients,
                     .in_flight = 2});
  auto small_rate = std::async(std::launch::async, [&] { return small.run(span).requests_per_second; });
  auto large_rate = std::async(std::launch::async, [&] { return large.run(span).requests_per_second; });
  const shared_loop::load_settings in_shared_memory{.endpoint = daemon.endpoint(),
                                                    .transport = penstock::transport::shared_memory,
                                                    .bytes = large_bytes,
                                                    .in_flight = shared_in_flight,
                                                    .pipeline = 1};
  shared_loop shared(in_shared_memory);
  auto shared_rate = std::async(std::launch::async, [&] { return shared.run(span).requests_per_second; });
  const milliseconds every{options.quick ? 400 : 1000};
  std::size_t visits = 0;
  const series seen = watch(daemon, span, every, [&] {
    shared_loop(in_shared_memory).run(every / 4);
    ++visits;
  });
  ordered_json result = new_result("steady", options, device_of(daemon.endpoint()));
  result.update({{"repeats", 1},
                 {"minutes", std::chrono::duration<double>(span).count() / 60},
                 {"small_bytes", small_bytes},
                 {"large_bytes", large_bytes},
                 {"small_per_second", small_rate.get()},
                 {"large_per_second", large_rate.get()},
                 {"shared_per_second", shared_rate.get()},
                 {"visits", visits},
                 {"resident", flatness_of(seen.seconds, seen.resident_mib, resident_share, resident_room_mib)},
                 {"pinned", flatness_of(seen.seconds, seen.pinned_mib, 0, rounding)},
                 {"device_memory", flatness_of(seen.seconds, seen.device_mib, 0, rounding)},
                 {"files", flatness_of(seen.seconds, seen.open_files, 0, rounding)},
                 {"seconds", seen.seconds},
                 {"resident_mib", seen.resident_mib},
                 {"pinned_mib", seen.pinned_mib},
                 {"device_mib", seen.device_mib},
                 {"open_files", seen.open_files}});
  result["passed"] = true;
  for (const char* const resource : {"resident", "pinned", "device_memory", "files"}) {
    result["passed"] = result["passed"].get<bool>() && result.at(resource).at("flat").get<bool>();
  }
  return result;
}

}  // namespace penstock::bench

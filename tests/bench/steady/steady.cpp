#include "tests/bench/steady/steady.hpp"

#include <chrono>
#include <cstdio>
#include <functional>
#include <future>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/bench/affine_configuration.hpp"
#include "tests/bench/closed_loop.hpp"
#include "tests/bench/endpoint_source.hpp"
#include "tests/bench/machine.hpp"
#include "tests/bench/process_usage.hpp"
#include "tests/bench/shared/lent_loop.hpp"
#include "tests/bench/steady/slope.hpp"
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
// A gain of so much of the whole, and of so many MiB, is the allocator's and the kernel's own coming and going.
constexpr double resident_share = 0.01;
constexpr double resident_room_mib = 1;
// Of what must not change at all, a tenth of a MiB or of a file: numbers are rounded.
constexpr double nothing = 0.1;

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

// A visitor's memory is reclaimed some time after it has gone: until then there is more than at rest.
void await_gone(testing::raw_peer& asking, std::size_t at_rest) {
  const clock::time_point limit = clock::now() + std::chrono::seconds{20};
  while (shared_bytes(asking.status()) != at_rest) {
    if (clock::now() > limit) {
      throw std::runtime_error("the memory of a client that has gone was not reclaimed");
    }
    std::this_thread::sleep_for(milliseconds{20});
  }
}

// Looks at the daemon again and again; right after each look somebody comes to visit, and is gone before the next.
series watch(const testing::daemon_process& daemon, milliseconds span, milliseconds every,
             const std::function<void()>& visit) {
  series made;
  testing::raw_peer asking(daemon.endpoint());
  const std::size_t at_rest = shared_bytes(asking.status());
  const clock::time_point begin = clock::now();
  for (clock::time_point at = begin + every; at < begin + span; at += every) {
    std::this_thread::sleep_until(at);
    await_gone(asking, at_rest);
    const process_usage usage = usage_of(daemon.pid());
    const nlohmann::json status = asking.status();
    const nlohmann::json& device = status.at("device");
    made.seconds.push_back(std::chrono::duration<double>(at - begin).count());
    made.resident_mib.push_back(mebibytes(usage.resident_bytes));
    made.pinned_mib.push_back(mebibytes(device.at("pinned_bytes").get<std::size_t>() + shared_bytes(status)));
    made.device_mib.push_back(mebibytes(device.at("memory_bytes").get<std::size_t>()));
    made.open_files.push_back(static_cast<double>(usage.open_files));
    std::fprintf(stderr, "\rsteady: %.0f s   ", made.seconds.back());
    visit();
  }
  std::fputc('\n', stderr);
  return made;
}

ordered_json to_json(const flatness& of) {
  return {{"gain", of.gain}, {"margin", of.margin}, {"flat", of.flat()}};
}

}  // namespace

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
  auto of_small = std::async(std::launch::async, [&] { return small.run(span).requests_per_second; });
  auto of_large = std::async(std::launch::async, [&] { return large.run(span).requests_per_second; });
  const lent_loop::settings in_shared_memory{.endpoint = daemon.endpoint(),
                                             .transport = penstock::transport::shared_memory,
                                             .bytes = large_bytes,
                                             .in_flight = shared_in_flight,
                                             .pipeline = 1};
  lent_loop shared(in_shared_memory);
  auto of_shared = std::async(std::launch::async, [&] { return shared.run(span).requests_per_second; });
  const milliseconds every{options.quick ? 400 : 1000};
  std::size_t visits = 0;
  const series seen = watch(daemon, span, every, [&] {
    lent_loop(in_shared_memory).run(every / 4);
    ++visits;
  });
  const flatness resident = flatness_of(seen.seconds, seen.resident_mib, resident_share, resident_room_mib);
  const flatness pinned = flatness_of(seen.seconds, seen.pinned_mib, 0, nothing);
  const flatness of_device = flatness_of(seen.seconds, seen.device_mib, 0, nothing);
  const flatness files = flatness_of(seen.seconds, seen.open_files, 0, nothing);
  return {{"benchmark", "steady"},
          {"machine", machine_facts()},
          {"device", device_of(daemon.endpoint())},
          {"repeats", 1},
          {"minutes", std::chrono::duration<double>(span).count() / 60},
          {"small_bytes", small_bytes},
          {"large_bytes", large_bytes},
          {"small_per_second", of_small.get()},
          {"large_per_second", of_large.get()},
          {"shared_per_second", of_shared.get()},
          {"visits", visits},
          {"resident_share", resident_share},
          {"resident_room_mib", resident_room_mib},
          {"resident", to_json(resident)},
          {"pinned", to_json(pinned)},
          {"device_memory", to_json(of_device)},
          {"files", to_json(files)},
          {"passed", resident.flat() && pinned.flat() && of_device.flat() && files.flat()},
          {"seconds", seen.seconds},
          {"resident_mib", seen.resident_mib},
          {"pinned_mib", seen.pinned_mib},
          {"device_mib", seen.device_mib},
          {"open_files", seen.open_files}};
}

}  // namespace penstock::bench

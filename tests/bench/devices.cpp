#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "client/cli/load.hpp"
#include "daemon/device/backend.hpp"
#include "tests/bench/benchmarks.hpp"
#include "tests/bench/workloads.hpp"
#include "tests/support/daemon_process.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;
using std::chrono::milliseconds;

constexpr int clients_per_device = 8;
constexpr std::uint32_t in_flight = 32;

// cu8 in and power out: 2 bytes a sample each way for taps × stages of arithmetic.
struct work {
  std::size_t samples;
  std::size_t taps;
  int stages;

  [[nodiscard]] std::string configuration(int devices) const {
    std::string ids = "0";
    for (int device = 1; device < devices; ++device) {
      ids += ", " + std::to_string(device);
    }
    std::string text = fmt::format(
        "config_version = 1\n[daemon]\nlog_level = \"warn\"\n[device]\nids = [{}]\n"
        "[[pipeline]]\nname = \"search\"\ninput = {{ dtype = \"cu8\", shape = [{}] }}\nbatch = {{ max_frames = 16 }}\n"
        "[[pipeline.stage]]\nname = \"iq\"\nop = \"convert\"\nto = \"cf32\"\n",
        ids, samples);
    for (int stage = 0; stage < stages; ++stage) {
      text += matched_filter{taps}.stage(fmt::format("match{}", stage));
    }
    return text + "[[pipeline.stage]]\nname = \"power\"\nop = \"magnitude\"\nsquared = true\n";
  }
};

work work_for(const bench_options& options) {
  return options.backend == "cuda" ? work{8192, 8192, 8} : work{8192, 256, 1};
}

double requests_per_second(const testing::daemon_process& daemon, const work& shape, int devices, bool quick) {
  cli::load_settings load;
  load.connection.url = daemon.endpoint();
  load.connection.name = "penstock-bench";
  load.pipeline = "search";
  load.request_bytes = shape.samples * 2;
  load.clients = clients_per_device * devices;
  load.in_flight = in_flight;
  load.warmup = milliseconds{quick ? 200 : 1000};
  load.duration = milliseconds{quick ? 300 : 3000};
  const cli::load_report report = cli::run_closed_loop(load);
  if (!report.errors.empty()) {
    throw std::runtime_error("a request failed: " + report.errors.begin()->second.first);
  }
  return static_cast<double>(report.requests) / std::chrono::duration<double>(report.elapsed).count();
}

}  // namespace

// A pipeline that computes much and moves little, by daemons on 1, 2, 4, ... devices, one shard each. One daemon runs
// at a time, so that it has all devices and cores to itself. The host backend is one device.
ordered_json run_devices(const bench_options& options) {
  const int available = options.backend == "cuda" ? count_cuda_devices() : 1;
  const work shape = work_for(options);
  std::map<int, std::vector<double>> rates;  // by number of devices
  ordered_json device;
  interleave(options, "devices", [&](int /*repeat*/) {
    for (int devices = 1; devices <= available; devices *= 2) {
      const testing::daemon_process daemon(
          {options.backend, "poll", shape.configuration(devices), testing::free_tcp_endpoint()});
      device = device_of(daemon.endpoint());
      rates[devices].push_back(requests_per_second(daemon, shape, devices, options.quick));
    }
  });
  ordered_json result = new_result("devices", options, device);
  result.update({{"available", available},
                 {"clients_per_device", clients_per_device},
                 {"in_flight", in_flight},
                 {"bytes", shape.samples * 2},
                 {"products_per_request", static_cast<double>(shape.samples * shape.taps) * shape.stages}});
  for (const auto& [devices, values] : rates) {
    result["rows"].push_back({{"devices", devices},
                              {"requests_per_second", to_json(spread_of(values))},
                              {"ratio", to_json(spread_of(ratios(values, rates.at(1))))}});
  }
  return result;
}

}  // namespace penstock::bench

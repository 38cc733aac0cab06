#include "tests/bench/devices/devices.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "client/cli/load.hpp"
#include "daemon/device/backend.hpp"
#include "tests/bench/machine.hpp"
#include "tests/bench/matched_filter.hpp"
#include "tests/bench/statistics.hpp"
#include "tests/support/daemon_process.hpp"

namespace penstock::bench {
namespace {

using nlohmann::ordered_json;
using std::chrono::milliseconds;

constexpr int clients_a_device = 8;
constexpr std::uint32_t in_flight = 32;

// cu8 in and power out, so that a sample is 2 bytes each way for taps × stages of arithmetic.
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

double requests_per_second(const testing::daemon_process& daemon, const work& of, int devices, bool quick) {
  cli::load_settings load;
  load.connection.url = daemon.endpoint();
  load.connection.name = "penstock-bench";
  load.pipeline = "search";
  load.request_bytes = of.samples * 2;
  load.clients = clients_a_device * devices;
  load.in_flight = in_flight;
  load.warmup = milliseconds{quick ? 200 : 1000};
  load.duration = milliseconds{quick ? 300 : 3000};
  const cli::load_report report = cli::run_closed_loop(load);
  if (!report.errors.empty()) {
    throw std::runtime_error("a request failed: " + report.errors.begin()->second.first);
  }
  return static_cast<double>(report.requests) / std::chrono::duration<double>(report.elapsed).count();
}

struct row {
  int devices;
  std::vector<double> requests_per_second;
};

}  // namespace

// One daemon at a time: each has the devices, and the machine's cores, to itself.
ordered_json run_devices(const bench_options& options) {
  const int available = options.backend == "cuda" ? count_cuda_devices() : 1;
  const work of = work_for(options);
  std::vector<row> rows;
  for (int devices = 1; devices <= available; devices *= 2) {
    rows.push_back({devices, {}});
  }
  ordered_json device;
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    for (row& each : rows) {
      const testing::daemon_process daemon(
          {options.backend, "poll", of.configuration(each.devices), testing::free_tcp_endpoint()});
      device = device_of(daemon.endpoint());
      each.requests_per_second.push_back(requests_per_second(daemon, of, each.devices, options.quick));
      std::fprintf(stderr, "\rdevices: %d, repeat %d of %d   ", each.devices, repeat + 1, options.repeats);
    }
  }
  std::fputc('\n', stderr);
  const double products = static_cast<double>(of.samples * of.taps) * of.stages;
  ordered_json result = {
      {"benchmark", "devices"},       {"machine", machine_facts()}, {"device", device},
      {"repeats", options.repeats},   {"available", available},     {"clients_a_device", clients_a_device},
      {"in_flight", in_flight},       {"bytes", of.samples * 2},    {"products_a_request", products},
      {"rows", ordered_json::array()}};
  for (const row& each : rows) {
    result["rows"].push_back(
        {{"devices", each.devices},
         {"requests_per_second", to_json(spread_of(each.requests_per_second))},
         {"ratio", to_json(spread_of(ratios(each.requests_per_second, rows.front().requests_per_second)))}});
  }
  return result;
}

}  // namespace penstock::bench

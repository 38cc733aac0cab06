#include "tests/bench/workloads.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <future>
#include <random>
#include <vector>

#include <fmt/format.h>

#include "tests/bench/load_client.hpp"
#include "tests/bench/open_loop.hpp"
#include "tests/bench/statistics.hpp"

namespace penstock::bench {
namespace {

constexpr std::size_t default_batch_bytes = std::size_t{8} << 20U;
using std::chrono::milliseconds;

constexpr std::size_t credits = 256;  // the daemon's default
constexpr std::size_t any_number = 100'000'000;

milliseconds span_of(const fairness_shape& shape) {
  return milliseconds{static_cast<std::int64_t>(shape.seconds * 1000)};
}

std::string pipeline(const fairness_shape& shape, const char* name, const char* priority) {
  std::string text = fmt::format(
      "[[pipeline]]\nname = \"{}\"\npriority = \"{}\"\ninput = {{ dtype = \"f32\", shape = [{}] }}\n"
      "batch = {{ max_frames = {} }}\n{}",
      name, priority, shape.floats, shape.max_frames, shape.pipeline_lines);
  for (int stage = 0; stage < shape.stages; ++stage) {
    text += matched_filter{shape.taps}.stage(fmt::format("y{}", stage));
  }
  return text;
}

// Runs `measure` while a client on a thread of its own has all of its credits in flight.
template <typename Function>
auto while_flooding(const std::string& endpoint, std::uint32_t pipeline, const fairness_shape& shape, double& results,
                    Function&& measure) {
  load_client flooder(endpoint, pipeline, shape.floats, true);
  flooder.run(credits, credits, milliseconds{0});
  auto flood = std::async(std::launch::async, [&] {
    return flooder.run(credits, any_number, span_of(shape) + milliseconds{500}).requests_per_second;
  });
  auto measured = measure();
  results = flood.get();
  return measured;
}

open_loop_settings load_of(const std::string& endpoint, const fairness_shape& shape, double capacity,
                           std::uint64_t seed) {
  return {.endpoint = endpoint,
          .pipeline = shared_pipeline,
          .floats = shape.floats,
          .clients = well_behaved_clients + 1,
          .rate = shape.load * capacity / (well_behaved_clients + 1),
          .span = span_of(shape),
          .seed = seed};
}

}  // namespace

std::string affine_configuration::text() const {
  const std::size_t most = *std::max_element(floats.begin(), floats.end()) * sizeof(float) * frames;
  std::string configuration = fmt::format(
      "config_version = 1\n[daemon]\nlog_level = \"warn\"\n"
      "[device]\nstreams = {}\nshards = {}\nslots = {}\n"
      "[clients]\nmax_clients = 2048\ncredit_requests = 1024\ncredit_bytes = \"1 GiB\"\n"
      "max_request_bytes = \"128 MiB\"\nreply_queue_bytes = \"1 GiB\"\n"
      "[shared_memory]\nmax_bytes = \"2 GiB\"\nmax_client_bytes = \"1 GiB\"\n",
      streams, shards, std::max(16, 2 * streams));
  for (std::size_t at = 0; at < floats.size(); ++at) {
    configuration += fmt::format(
        "[[pipeline]]\nname = \"y{}\"\ninput = {{ dtype = \"f32\", shape = [{}] }}\nbatch = {{ max_bytes = {} }}\n", at,
        floats[at], std::max(most, default_batch_bytes));
    // Stages after the first leave the values as they are.
    for (int stage = 1; stage <= stages; ++stage) {
      configuration += fmt::format("[[pipeline.stage]]\nname = \"{}\"\nop = \"affine\"\na = {}\nb = {}\n",
                                   stage == stages ? "y" : fmt::format("y{}", stage), stage == 1 ? "2.0" : "1.0",
                                   stage == 1 ? "1.0" : "0.0");
    }
  }
  return configuration;
}

// Rounded as the configuration has them.
std::vector<double> matched_filter::values() const {
  std::mt19937 random(20240608);
  const double size = std::round(1e6 / std::sqrt(static_cast<double>(taps))) / 1e6;
  std::vector<double> weights;
  for (std::size_t tap = 0; tap < taps; ++tap) {
    weights.push_back(random() % 2 == 0 ? size : -size);
  }
  return weights;
}

std::string matched_filter::stage(const std::string& name) const {
  std::string numbers;
  for (const double value : values()) {
    numbers += fmt::format("{}{:.6f}", numbers.empty() ? "" : ", ", value);
  }
  return fmt::format(
      "[[pipeline.stage]]\nname = \"{}\"\nop = \"correlate\"\nmode = \"same\"\nmethod = \"direct\"\ntemplate = [{}]\n",
      name, numbers);
}

fairness_shape shape_for(const std::string& backend) {
  fairness_shape shape;
  if (backend == "cuda") {
    shape.floats = 16384;
    shape.taps = 16384;
    shape.stages = 16;
    shape.max_frames = 8;
  } else {
    shape.device_lines = "host_threads = 1\n";
    shape.streams = 1;
  }
  return shape;
}

std::string fairness_shape::configuration() const {
  return "config_version = 1\n[daemon]\nlog_level = \"warn\"\n[clients]\nmax_clients = 4096\n[device]\nstreams = " +
         std::to_string(streams) + "\n" + device_lines + pipeline(*this, "shared", "normal") +
         pipeline(*this, "urgent", "high") + pipeline(*this, "patient", "low");
}

double capacity_of(const std::string& endpoint, const fairness_shape& shape) {
  load_client client(endpoint, shared_pipeline, shape.floats, true);
  client.run(64, 128, milliseconds{300});
  return client.run(64, any_number, milliseconds{1500}).requests_per_second;
}

fairness_run measure_fairness(const std::string& endpoint, const fairness_shape& shape, double capacity,
                              std::uint64_t seed) {
  open_loop_settings load = load_of(endpoint, shape, capacity, seed);
  const std::vector<double> fair = run_answered_open_loop(load).latencies_of_first(well_behaved_clients);
  load.clients = well_behaved_clients;
  fairness_run run;
  const std::vector<double> flooded = while_flooding(endpoint, shared_pipeline, shape, run.flood_per_second, [&] {
    return run_answered_open_loop(load).latencies_of_first(well_behaved_clients);
  });
  run.p50_us = quantile(fair, 0.5);
  run.p99_us = quantile(fair, 0.99);
  run.flooded_p50_us = quantile(flooded, 0.5);
  run.flooded_p99_us = quantile(flooded, 0.99);
  run.requests = flooded.size();
  return run;
}

priority_run measure_priority(const std::string& endpoint, const fairness_shape& shape) {
  load_client patient(endpoint, patient_pipeline, shape.floats, true);
  const auto results_per_second = [&] {
    const load_result run = patient.run(1, any_number, span_of(shape));
    return static_cast<double>(run.results - 1) / shape.seconds;
  };
  priority_run run;
  run.alone_per_second = results_per_second();
  double ignored = 0;
  run.flooded_per_second = while_flooding(endpoint, urgent_pipeline, shape, ignored, results_per_second);
  return run;
}

}  // namespace penstock::bench

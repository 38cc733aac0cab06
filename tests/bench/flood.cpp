#include "tests/bench/flood.hpp"

#include <chrono>
#include <cstddef>
#include <future>
#include <vector>

#include <fmt/format.h>

#include "tests/bench/crowd.hpp"
#include "tests/bench/load.hpp"
#include "tests/bench/matched_filter.hpp"
#include "tests/bench/statistics.hpp"

namespace penstock::bench {
namespace {

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
      name, priority, shape.floats, shape.max_frames, shape.of_pipelines);
  for (int stage = 0; stage < shape.stages; ++stage) {
    text += matched_filter{shape.taps}.stage(fmt::format("y{}", stage));
  }
  return text;
}

// One that has as much in flight as its credits allow, in a thread of its own, from before until after `within` runs.
template <typename Function>
auto while_flooding(const std::string& endpoint, std::uint32_t pipeline, const fairness_shape& shape, double& results,
                    Function&& within) {
  load_client flooder(endpoint, pipeline, shape.floats, true);
  flooder.run(credits, credits, milliseconds{0});
  auto flood = std::async(std::launch::async, [&] {
    return flooder.run(credits, any_number, span_of(shape) + milliseconds{500}).requests_per_second;
  });
  auto made = within();
  results = flood.get();
  return made;
}

crowd_settings crowd_of(const std::string& endpoint, const fairness_shape& shape, double capacity, std::uint64_t seed) {
  return {.endpoint = endpoint,
          .pipeline = shared_pipeline,
          .floats = shape.floats,
          .clients = well_behaved + 1,
          .rate = shape.load * capacity / (well_behaved + 1),
          .span = span_of(shape),
          .seed = seed};
}

}  // namespace

fairness_shape shape_for(const std::string& backend) {
  fairness_shape shape;
  if (backend == "cuda") {
    shape.floats = 16384;
    shape.taps = 16384;
    shape.stages = 16;
    shape.max_frames = 8;
  } else {
    shape.device = "host_threads = 1\n";
    shape.streams = 1;
  }
  return shape;
}

std::string fairness_shape::configuration() const {
  return "config_version = 1\n[daemon]\nlog_level = \"warn\"\n[clients]\nmax_clients = 4096\n[device]\nstreams = " +
         std::to_string(streams) + "\n" + device + pipeline(*this, "shared", "normal") +
         pipeline(*this, "urgent", "high") + pipeline(*this, "patient", "low");
}

double capacity_of(const std::string& endpoint, const fairness_shape& shape) {
  load_client client(endpoint, shared_pipeline, shape.floats, true);
  client.run(64, 128, milliseconds{300});
  return client.run(64, any_number, milliseconds{1500}).requests_per_second;
}

fairness_run measure_fairness(const std::string& endpoint, const fairness_shape& shape, double capacity,
                              std::uint64_t seed) {
  crowd_settings crowd = crowd_of(endpoint, shape, capacity, seed);
  const std::vector<double> fair = run_answered_crowd(crowd).of_first(well_behaved);
  crowd.clients = well_behaved;
  fairness_run made;
  const std::vector<double> flooded = while_flooding(endpoint, shared_pipeline, shape, made.flood_per_second,
                                                     [&] { return run_answered_crowd(crowd).of_first(well_behaved); });
  made.p50_us = quantile(fair, 0.5);
  made.p99_us = quantile(fair, 0.99);
  made.flooded_p50_us = quantile(flooded, 0.5);
  made.flooded_p99_us = quantile(flooded, 0.99);
  made.requests = flooded.size();
  return made;
}

priority_run measure_priority(const std::string& endpoint, const fairness_shape& shape) {
  load_client patient(endpoint, patient_pipeline, shape.floats, true);
  const auto results_per_second = [&] {
    const load_result run = patient.run(1, any_number, span_of(shape));
    return static_cast<double>(run.results - 1) / shape.seconds;
  };
  priority_run made;
  made.alone_per_second = results_per_second();
  double ignored = 0;
  made.flooded_per_second = while_flooding(endpoint, urgent_pipeline, shape, ignored, results_per_second);
  return made;
}

}  // namespace penstock::bench

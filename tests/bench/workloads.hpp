#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace penstock::bench {

/// A daemon whose pipelines do almost nothing: `affine` stages on f32, with results as large as the requests. Credits
/// and queues are larger than what a benchmark keeps in flight.
struct affine_configuration {
  std::vector<std::size_t> floats{64};  ///< of a frame, one pipeline each
  std::size_t frames = 1;               ///< of the largest request
  int streams = 8;
  int shards = 1;
  int stages = 1;  ///< of a pipeline

  [[nodiscard]] std::string text() const;
};

/// Work of a chosen cost: a direct correlation, whose cost is taps × samples. The taps have random signs and a size
/// that keeps the signal's level through any number of stages.
struct matched_filter {
  std::size_t taps = 1;

  [[nodiscard]] std::vector<double> values() const;
  /// A [[pipeline.stage]] of that name. Its output has the input's shape.
  [[nodiscard]] std::string stage(const std::string& name) const;
};

/// A daemon whose device is the bottleneck, and the load on it.
///
/// Baseline: nine clients send at random times, each a ninth of `load` × the device's capacity. Flooded: the same eight
/// with the same departures, and in place of the ninth one that always has all of its credits in flight, over 100 times
/// its share. Only the eight are measured.
struct fairness_shape {
  std::size_t floats = 8192;  ///< of a frame
  std::size_t taps = 2048;    ///< of a stage; about 0.5 ms on a core
  int stages = 1;
  int max_frames = 1;  ///< of a batch
  double load = 0.7;
  double seconds = 4;  ///< of one run
  int streams = 8;
  std::string device_lines;    ///< added to [device]
  std::string pipeline_lines;  ///< added to each [[pipeline]]

  /// Pipelines "shared" (normal priority), "urgent" (high) and "patient" (low) with the same stages.
  [[nodiscard]] std::string configuration() const;
};

/// A shape for which the device of this backend is the bottleneck.
[[nodiscard]] fairness_shape shape_for(const std::string& backend);

inline constexpr std::size_t well_behaved_clients = 8;

/// Numbers of the pipelines.
inline constexpr std::uint32_t shared_pipeline = 0;
inline constexpr std::uint32_t urgent_pipeline = 1;
inline constexpr std::uint32_t patient_pipeline = 2;

/// The eight beside a fair ninth client, and just after beside a flooding one.
struct fairness_run {
  double p50_us = 0;
  double p99_us = 0;
  double flooded_p50_us = 0;
  double flooded_p99_us = 0;
  double flood_per_second = 0;  ///< results of the flooding client
  std::uint64_t requests = 0;   ///< of the eight, in each of the two

  [[nodiscard]] double p99_ratio() const noexcept { return flooded_p99_us / p99_us; }
};

/// Requests per second that the daemon reaches.
[[nodiscard]] double capacity_of(const std::string& endpoint, const fairness_shape& shape);
[[nodiscard]] fairness_run measure_fairness(const std::string& endpoint, const fairness_shape& shape, double capacity,
                                            std::uint64_t seed);

/// Results per second of the low priority with one request in flight, alone and while the high priority is flooded. The
/// last result is not counted: it may have waited for the flood's end.
struct priority_run {
  double alone_per_second = 0;
  double flooded_per_second = 0;
};
[[nodiscard]] priority_run measure_priority(const std::string& endpoint, const fairness_shape& shape);

}  // namespace penstock::bench

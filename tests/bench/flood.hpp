#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace penstock::bench {

/// A daemon's load of well-behaved clients, and how hard it may be pressed.
///
/// The baseline: nine clients send at random times, each a ninth of `load` × what the device can do. Against it: the
/// same eight with the same departures, and in the ninth's place one that floods, with as much in flight as its credits
/// allow, which is far more than 100 times its share. Only the eight are looked at.
struct fairness_shape {
  std::size_t floats = 8192;  ///< of a frame
  std::size_t taps = 2048;    ///< what a frame costs: on a host's core about half a millisecond
  int stages = 1;             ///< of so many taps each
  int max_frames = 1;         ///< of a batch: more gain nothing where the cost is by the frame, and all wait for all
  double load = 0.7;
  double seconds = 4;        ///< of one run
  int streams = 8;           ///< of the daemon's wheel
  std::string device;        ///< further lines of [device]
  std::string of_pipelines;  ///< further lines of each [[pipeline]]

  /// Pipelines "shared" (normal priority), "urgent" (high) and "patient" (low), which do the same work.
  [[nodiscard]] std::string configuration() const;
};

/// What makes the device of that backend the one that is scarce: on the host the threads compute on the cores that
/// there are, so that a request costs far more than to send it.
[[nodiscard]] fairness_shape shape_for(const std::string& backend);

inline constexpr std::size_t well_behaved = 8;

/// The pipelines' numbers.
inline constexpr std::uint32_t shared_pipeline = 0;
inline constexpr std::uint32_t urgent_pipeline = 1;
inline constexpr std::uint32_t patient_pipeline = 2;

/// One run with a fair ninth client and one with a flooding one, just after.
struct fairness_run {
  double p50_us = 0;
  double p99_us = 0;
  double flooded_p50_us = 0;
  double flooded_p99_us = 0;
  double flood_per_second = 0;  ///< results of the one that floods
  std::uint64_t requests = 0;   ///< of the eight, in each of the two

  [[nodiscard]] double p99_ratio() const noexcept { return flooded_p99_us / p99_us; }
};

/// Requests a second that the daemon can do, from one client with `in_flight` of them.
[[nodiscard]] double capacity_of(const std::string& endpoint, const fairness_shape& shape);
[[nodiscard]] fairness_run measure_fairness(const std::string& endpoint, const fairness_shape& shape, double capacity,
                                            std::uint64_t seed);

/// Results a second of the low priority, one request in flight: alone, and while the high priority is flooded. The last
/// result is left out: it may have had to wait for the flood's end.
struct priority_run {
  double alone_per_second = 0;
  double flooded_per_second = 0;
};
[[nodiscard]] priority_run measure_priority(const std::string& endpoint, const fairness_shape& shape);

}  // namespace penstock::bench

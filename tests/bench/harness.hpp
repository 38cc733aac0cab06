#pragma once

#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>

#include <nlohmann/json.hpp>

#include "tests/bench/statistics.hpp"

namespace penstock::bench {

/// The options of every benchmark.
struct bench_options {
  std::string backend = "host";
  int repeats = 5;      ///< interleaved: every contender once, then every contender again
  double minutes = 10;  ///< duration of `steady`
  bool quick = false;   ///< short runs that only show that the benchmark works
  int turn_ms = 0;      ///< of one contender in one repeat; 0: the benchmark's default
  std::string only{};   ///< of `operators`: those whose name contains it

  [[nodiscard]] std::chrono::milliseconds turn() const noexcept {
    return std::chrono::milliseconds{turn_ms != 0 ? turn_ms : quick ? 100 : 1000};
  }
};

/// A benchmark needs a GPU and there is none. The program exits with `exit_code`, which no other failure uses.
struct no_gpu : std::runtime_error {
  using std::runtime_error::runtime_error;
  static constexpr int exit_code = 77;
};

/// Calls `turn` with 0, 1, ... options.repeats - 1. Every contender runs once in each turn, so that all of them see the
/// same changes of the machine. Shows the progress on stderr.
void interleave(const bench_options& options, const std::string& name, const std::function<void(int repeat)>& turn);

/// What every result begins with: benchmark, machine, device, repeats.
[[nodiscard]] nlohmann::ordered_json new_result(const char* name, const bench_options& options,
                                                nlohmann::ordered_json device);

/// Date, commit, processor, cores, memory_gib, kernel, libzmq; nvidia_driver where one is loaded.
[[nodiscard]] nlohmann::ordered_json machine_facts();
/// Backend, name and detail of the device that the daemon at `endpoint` uses.
[[nodiscard]] nlohmann::ordered_json device_of(const std::string& endpoint);
/// The device of a benchmark that uses none.
[[nodiscard]] nlohmann::ordered_json no_device();

/// The commit that this program was built from, such as "4378e9b1c2"; followed by "-dirty" if a source had changed;
/// "unknown" without a checkout. Every build writes its definition (cmake/commit.cmake).
[[nodiscard]] const char* built_from() noexcept;

/// The spread of one member over several runs.
template <typename Run>
[[nodiscard]] nlohmann::ordered_json column(const std::vector<Run>& runs, double Run::*member) {
  std::vector<double> values;
  for (const Run& run : runs) {
    values.push_back(run.*member);
  }
  return to_json(spread_of(values));
}

}  // namespace penstock::bench

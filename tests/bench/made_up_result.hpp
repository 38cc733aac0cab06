#pragma once

#include <nlohmann/json.hpp>

#include "tests/bench/statistics.hpp"

namespace penstock::bench {

/// A figure whose repeats were all alike.
inline nlohmann::ordered_json of(double value) {
  return to_json({value, value, value});
}

/// The head of what a benchmark gave on a device.
inline nlohmann::ordered_json result_of(const char* benchmark) {
  return {{"benchmark", benchmark},
          {"machine",
           {{"date", "2026-01-02"}, {"processor", "A Processor"}, {"cores", 2}, {"kernel", "6"}, {"libzmq", "4.3.4"}}},
          {"device", {{"backend", "cuda"}, {"name", "A Device"}, {"detail", "2 threads"}}},
          {"repeats", 5}};
}

/// Somebody who was asked for results: p99 is twice p50.
inline nlohmann::ordered_json contender(double rate, double p50_us, double limit) {
  return {{"requests_per_second", of(rate)},
          {"latency_p50_us", of(p50_us)},
          {"latency_p99_us", of(2 * p50_us)},
          {"of_limit", of(rate / limit)}};
}

}  // namespace penstock::bench

#pragma once

#include <utility>

#include <nlohmann/json.hpp>

#include "tests/bench/statistics.hpp"

namespace penstock::bench {

/// Made-up parts of a result, for the tests of pages: a figure with its spread, and what every result begins with.
inline nlohmann::ordered_json of(double median) {
  return to_json({median, median - 1, median + 1});
}

inline nlohmann::ordered_json head(const char* kind, nlohmann::ordered_json device) {
  return {{"benchmark", kind},
          {"machine",
           {{"date", "2026-01-02"}, {"processor", "A Processor"}, {"cores", 2}, {"kernel", "6"}, {"libzmq", "4.3.4"}}},
          {"device", std::move(device)},
          {"repeats", 5}};
}

}  // namespace penstock::bench

#pragma once

#include <chrono>
#include <cstdint>

#include <nlohmann/json.hpp>

#include "tests/bench/overload/overload_case.hpp"
#include "tests/support/daemon_process.hpp"

namespace penstock::bench {

/// How hard a daemon is pressed, and for how long it is looked at.
struct overload_plan {
  double times_capacity = 2;
  std::chrono::milliseconds before{};
  std::chrono::milliseconds overload{};
  std::chrono::milliseconds after{};  ///< from when all that was sent meanwhile is answered
};

/// One overload of a daemon that can do so many requests a second: what became of the requests, its memory meanwhile,
/// how a client that sends little saw it, and under "failures" what must not be. The same seed gives the same
/// departures.
[[nodiscard]] nlohmann::ordered_json overload(const testing::daemon_process& daemon, const overload_case& of,
                                              double capacity, const overload_plan& plan, std::uint64_t seed);

}  // namespace penstock::bench

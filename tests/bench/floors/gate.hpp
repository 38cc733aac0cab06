#pragma once

#include <map>
#include <string>

#include "tests/bench/floors/time_limit.hpp"
#include "tests/bench/statistics.hpp"

namespace penstock::bench {

/// The ratios that stand for the others, on the host backend, in about a minute: each of its turns, beside what the
/// contender is held against in the same turn. Nothing once the time has passed.
[[nodiscard]] std::map<std::string, spread> measure_gate(int repeats, const time_limit& within);

/// Measures, and holds the medians against this file (floors.hpp), whose "limit_s" is how many seconds all of that may
/// take, the start of the daemons included. Prints the ratios, what is below its floor, and the time. Whether none is,
/// within the time.
[[nodiscard]] bool pass_gate(const std::string& floors_file, int repeats);

}  // namespace penstock::bench

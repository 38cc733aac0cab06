#pragma once

#include <map>
#include <string>

#include "tests/bench/floors/time_limit.hpp"
#include "tests/bench/statistics.hpp"

namespace penstock::bench {

/// The ratios that stand for the others, on the host backend, in about a minute: each of its turns, beside what the
/// contender is held against in the same turn. Nothing once the time has passed.
[[nodiscard]] std::map<std::string, spread> measure_gate(int repeats, const time_limit& within);

/// Measures, and compares the medians with the floors of this file (floors.hpp). If one is below its floor, everything
/// is started and measured again, at most three times in all, and the best median of each ratio counts: other work on
/// the machine can slow one round, a slower daemon is slow in all of them. "limit_s" of the file is how many seconds
/// all rounds together may take, the start of the daemons included. Prints the ratios, what is below its floor, and the
/// time. True when no ratio is below its floor within that time.
[[nodiscard]] bool pass_gate(const std::string& floors_file, int repeats);

}  // namespace penstock::bench

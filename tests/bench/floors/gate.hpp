#pragma once

#include <map>
#include <string>

namespace penstock::bench {

/// The ratios that stand for the others, on the host backend, in about a minute: each the median of its turns, beside
/// the raw echo (or the server by hand) of the same turn.
[[nodiscard]] std::map<std::string, double> measure_gate(int repeats);

/// Measures, and holds the ratios against this file. Prints them, and what is below its floor. Whether none is.
[[nodiscard]] bool pass_gate(const std::string& floors_file, int repeats);

}  // namespace penstock::bench

#pragma once

#include <string>
#include <vector>

namespace penstock::bench {

/// docs/benchmarks.md, made of the JSON files that runs have written. Throws std::exception on one that it can't read.
[[nodiscard]] std::string page_of(const std::vector<std::string>& json_files);

}  // namespace penstock::bench

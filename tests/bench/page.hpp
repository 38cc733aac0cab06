#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace penstock::bench {

/// What a run has written. Throws std::exception when it can't be read.
[[nodiscard]] nlohmann::ordered_json read_result(const std::string& file);
/// docs/benchmarks.md, made of the JSON files that runs have written, benchmark by benchmark. Throws std::exception on
/// one that it can't read.
[[nodiscard]] std::string page_of(const std::vector<std::string>& json_files);
/// The section of one run, as Markdown.
[[nodiscard]] std::string tables_of(const nlohmann::ordered_json& result);

}  // namespace penstock::bench

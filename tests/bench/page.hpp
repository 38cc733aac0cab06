#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace penstock::bench {

/// What a run has written. Throws std::exception when it can't be read.
[[nodiscard]] nlohmann::ordered_json read_result(const std::string& file);
/// docs/benchmarks.md, made of the JSON files that runs have written, benchmark by benchmark, with the drawings that
/// `write_drawings` puts beside them. Throws std::exception on one that it can't read.
[[nodiscard]] std::string page_of(const std::vector<std::string>& json_files);
/// The section of one run, as Markdown, without drawings.
[[nodiscard]] std::string tables_of(const nlohmann::ordered_json& result);
/// Draws a run beside its JSON file: NAME.svg has its charts, NAME-timeline.svg its timeline where it has one.
/// Throws std::exception when a file can't be read or written.
void write_drawings(const std::string& json_file);

}  // namespace penstock::bench

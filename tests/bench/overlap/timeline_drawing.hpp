#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace penstock::bench {

/// An SVG of a timeline: a row for each stream, a coloured bar for each copy in, kernel and copy out, an axis in µs.
/// `bars`: [{"stream": 0, "what": "copy in" | "compute" | "copy out", "begin_us": …, "end_us": …}, …].
/// Throws nlohmann::json::exception when they are something else.
[[nodiscard]] std::string draw_timeline(const nlohmann::ordered_json& bars);

}  // namespace penstock::bench

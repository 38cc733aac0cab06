#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace penstock::bench {

/// "Device: … Machine: … Median of 5 interleaved repeats (least–most).": what stands above every table.
[[nodiscard]] std::string facts_line(const nlohmann::ordered_json& result);
/// A spread as "1.23 (1.20–1.31)", each value times `scale`, with so many decimals.
[[nodiscard]] std::string spread_text(const nlohmann::ordered_json& spread, double scale = 1, int decimals = 2);
/// A spread as "80 % (76–92)", for one figure among words: each value times `scale`, the unit once.
[[nodiscard]] std::string figure_text(const nlohmann::ordered_json& spread, const std::string& unit, double scale = 1,
                                      int decimals = 0);
/// The median of the spread at a key.
[[nodiscard]] double median_of(const nlohmann::ordered_json& row, const char* key);
/// "256 B", "64 KiB", "1 MiB".
[[nodiscard]] std::string bytes_text(std::size_t bytes);

}  // namespace penstock::bench

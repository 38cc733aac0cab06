#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "tests/bench/chart.hpp"

namespace penstock::bench {

/// A line through the rows of a result: x is the number at key `x` of each, y the spread at `y` (a JSON pointer such as
/// "/echo/p50_us"), each value times `scale`. Rows without a `y` are left out.
[[nodiscard]] chart_line line_of(const std::string& name, const nlohmann::ordered_json& rows, const char* x,
                                 const std::string& y, double scale = 1);

}  // namespace penstock::bench

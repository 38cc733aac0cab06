#pragma once

#include <string>
#include <string_view>

namespace penstock::cli {

/// JSON for people: members under one another, objects indented, arrays of objects as tables, and what these were timed
/// as a table behind them. What is no JSON comes back as it is.
[[nodiscard]] std::string status_table(std::string_view json);

}  // namespace penstock::cli

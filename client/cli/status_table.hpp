#pragma once

#include <string>
#include <string_view>

namespace penstock::cli {

/// Formats JSON as text: one member per line, objects indented, arrays of objects as tables, followed by a table of
/// their timings. Text that is not JSON is returned unchanged.
[[nodiscard]] std::string status_table(std::string_view json);

}  // namespace penstock::cli

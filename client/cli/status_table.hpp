#pragma once

#include <string>
#include <string_view>

namespace penstock::cli {

/// Formats JSON as text: one member per line, objects indented, arrays of objects as tables, followed by a table of
/// their timings. Text that is not JSON is returned unchanged.
[[nodiscard]] std::string status_table(std::string_view json);

/// A line for each pipeline that the daemon does not serve, with why, from the JSON of STATUS.
[[nodiscard]] std::string quarantine_text(std::string_view json);
/// Why it does not serve this one; "" if that is not said.
[[nodiscard]] std::string quarantine_reason(std::string_view json, std::string_view pipeline);

}  // namespace penstock::cli

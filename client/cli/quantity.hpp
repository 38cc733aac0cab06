#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace penstock::cli {

/// "48.2 us", "1.37 ms": three significant digits.
[[nodiscard]] std::string duration_text(std::chrono::nanoseconds time);
/// "3.21 MB", decimal units: of what was moved, and how fast.
[[nodiscard]] std::string bytes_text(double bytes);
/// "64 MiB", "1.50 KiB", binary units: of what is set in them, as limits and frames are.
[[nodiscard]] std::string size_text(std::uint64_t bytes);
/// "12,345", or "3.21" below ten where it is no whole number.
[[nodiscard]] std::string count_text(double count);
/// Three significant digits: "0.00123", "48.2", "1,230".
[[nodiscard]] std::string number_text(double number);

}  // namespace penstock::cli

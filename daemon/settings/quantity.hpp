#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace penstock {

/// A whole number and a unit, "500us" or "500 us"; the units are ns, us, ms, s, min and h.
/// Nothing when the text is anything else, or does not fit.
[[nodiscard]] std::optional<std::chrono::nanoseconds> parse_duration(std::string_view text);
/// In the largest unit that gives a whole number: "10s", "1500ms". `duration` ≥ 0. parse_duration reads it back.
[[nodiscard]] std::string print_duration(std::chrono::nanoseconds duration);

/// A whole number and a unit, "8 MiB" or "8MiB"; the units are B, KiB, MiB, GiB and TiB.
/// Nothing when the text is anything else, or does not fit.
[[nodiscard]] std::optional<std::size_t> parse_size(std::string_view text);
/// In the largest unit that gives a whole number: "8 MiB", "1000 B". parse_size reads it back.
[[nodiscard]] std::string print_size(std::size_t bytes);

}  // namespace penstock

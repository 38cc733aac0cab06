#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace penstock {

/// Nanoseconds since 1970 of a date and time of ISO 8601 in UTC, such as "2026-01-31T12:00:00.5Z". As older files have
/// it, a space may stand for the T, and the zone may be "+00:00" or missing. Digits beyond the nanosecond are cut off.
/// nullopt for anything else, and beyond the years 1678 to 2261.
[[nodiscard]] std::optional<std::int64_t> parse_utc_time(std::string_view text) noexcept;
/// "2026-01-31T12:00:00.500000000Z".
[[nodiscard]] std::string print_utc_time(std::int64_t time_ns);

/// The time so much later, or earlier. nullopt beyond 2^62 ns from 1970, some 146 years: no clock says that.
[[nodiscard]] std::optional<std::int64_t> later_by(std::int64_t time_ns, double seconds) noexcept;

}  // namespace penstock

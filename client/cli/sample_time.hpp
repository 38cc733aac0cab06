#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace penstock::cli {

/// The numbers and times of consecutive samples, counted from the first one.
struct sample_numbers {
  std::int64_t index = 0;               ///< of the first sample
  std::optional<std::int64_t> time_ns;  ///< of the first sample, since 1970, UTC
  double rate = 0;                      ///< samples a second; for times

  /// The time of the sample of that index, rounded to a nanosecond. Only with a time and a rate.
  [[nodiscard]] std::int64_t time_of(std::int64_t sample) const noexcept;
};

/// Nanoseconds since 1970, UTC, of "now", of seconds since then such as 1700000000.25, or of a date and time of ISO
/// 8601 in UTC such as 2026-11-27T20:15:00.5Z. nullopt for anything else, and beyond the years 1678 to 2261.
[[nodiscard]] std::optional<std::int64_t> parse_time(std::string_view text);

}  // namespace penstock::cli

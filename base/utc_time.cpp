#include "base/utc_time.hpp"

#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>

namespace penstock {
namespace {

constexpr std::int64_t ns_of_second = 1'000'000'000;

}  // namespace

std::optional<std::int64_t> parse_utc_time(std::string_view text) noexcept {
  const auto number = [&text](std::size_t digits, char behind) -> std::optional<int> {
    int value = 0;
    if (text.size() < digits) {
      return std::nullopt;
    }
    const auto [end, error] = std::from_chars(text.data(), text.data() + digits, value);
    if (error != std::errc{} || end != text.data() + digits || text.front() == '-') {
      return std::nullopt;
    }
    text.remove_prefix(digits);
    if (behind != '\0') {
      const bool fits = !text.empty() && (text.front() == behind || (behind == 'T' && text.front() == ' '));
      text.remove_prefix(fits ? 1 : 0);
      return fits ? std::optional(value) : std::nullopt;
    }
    return value;
  };
  const auto year = number(4, '-');
  const auto month = year ? number(2, '-') : std::nullopt;
  const auto day = month ? number(2, 'T') : std::nullopt;
  const auto hour = day ? number(2, ':') : std::nullopt;
  const auto minute = hour ? number(2, ':') : std::nullopt;
  const auto second = minute ? number(2, '\0') : std::nullopt;
  if (!second) {
    return std::nullopt;
  }
  const std::chrono::year_month_day date{std::chrono::year{*year}, std::chrono::month{static_cast<unsigned>(*month)},
                                         std::chrono::day{static_cast<unsigned>(*day)}};
  constexpr int first_year = 1678;  // nanoseconds of 64 bits reach from there to 2261
  constexpr int last_year = 2261;
  if (!date.ok() || *year < first_year || *year > last_year || *hour > 23 || *minute > 59 || *second > 60) {
    return std::nullopt;
  }
  std::int64_t nanoseconds = 0;
  if (!text.empty() && text.front() == '.') {
    text.remove_prefix(1);
    if (text.empty() || text.front() < '0' || text.front() > '9') {
      return std::nullopt;
    }
    std::int64_t unit = ns_of_second / 10;
    while (!text.empty() && text.front() >= '0' && text.front() <= '9') {
      nanoseconds += (text.front() - '0') * unit;
      unit /= 10;
      text.remove_prefix(1);
    }
  }
  if (!text.empty() && text != "Z" && text != "z" && text != "+00:00") {
    return std::nullopt;
  }
  const auto days = std::chrono::sys_days(date).time_since_epoch();
  const std::int64_t seconds =
      std::chrono::duration_cast<std::chrono::seconds>(days).count() + *hour * 3600 + *minute * 60 + *second;
  return seconds * ns_of_second + nanoseconds;
}

std::string print_utc_time(std::int64_t time_ns) {
  // A day's begin may be earlier than 64 bits of nanoseconds reach.
  const auto second = std::chrono::floor<std::chrono::seconds>(std::chrono::nanoseconds{time_ns});
  const auto day = std::chrono::floor<std::chrono::days>(second);
  const std::chrono::year_month_day date{std::chrono::sys_days(day)};
  const std::chrono::hh_mm_ss clock(second - day);
  const std::int64_t rest = time_ns % ns_of_second;
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%04d-%02u-%02uT%02d:%02d:%02d.%09dZ", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                static_cast<int>(clock.hours().count()), static_cast<int>(clock.minutes().count()),
                static_cast<int>(clock.seconds().count()), static_cast<int>(rest < 0 ? rest + ns_of_second : rest));
  return text.data();
}

std::optional<std::int64_t> later_by(std::int64_t time_ns, double seconds) noexcept {
  constexpr std::int64_t furthest = std::int64_t{1} << 62;
  const double by_ns = seconds * 1e9;
  // Twice the bound still fits, and NaN compares false.
  if (time_ns > furthest || time_ns < -furthest || !(std::fabs(by_ns) < static_cast<double>(furthest))) {
    return std::nullopt;
  }
  const std::int64_t later = time_ns + std::llround(by_ns);
  return later <= furthest && later >= -furthest ? std::optional(later) : std::nullopt;
}

}  // namespace penstock

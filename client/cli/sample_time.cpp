#include "client/cli/sample_time.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>

namespace penstock::cli {
namespace {

using std::chrono::nanoseconds;
using utc_time = std::chrono::time_point<std::chrono::system_clock, nanoseconds>;

constexpr std::int64_t second_ns = 1'000'000'000;
constexpr std::size_t nanosecond_digits = 9;

/// Reads so many digits off the front, and the separator behind them.
std::optional<unsigned> take_number(std::string_view& text, std::size_t digits, char behind) {
  unsigned value = 0;
  const char* const end = text.data() + std::min(digits, text.size());
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != text.data() + digits) {
    return std::nullopt;
  }
  text.remove_prefix(digits);
  if (behind != '\0') {
    if (text.empty() || text.front() != behind) {
      return std::nullopt;
    }
    text.remove_prefix(1);
  }
  return value;
}

/// ".25" as nanoseconds; 0 where there is none. Digits beyond the ninth are cut off.
std::optional<std::int64_t> take_fraction(std::string_view& text) {
  if (text.empty() || text.front() != '.') {
    return 0;
  }
  text.remove_prefix(1);
  std::int64_t value = 0;
  std::size_t digits = 0;
  for (; !text.empty() && text.front() >= '0' && text.front() <= '9'; ++digits, text.remove_prefix(1)) {
    value = digits < nanosecond_digits ? 10 * value + (text.front() - '0') : value;
  }
  for (std::size_t digit = digits; digit < nanosecond_digits; ++digit) {
    value *= 10;
  }
  return digits > 0 ? std::optional{value} : std::nullopt;
}

std::optional<std::int64_t> sum_of(std::int64_t seconds, std::int64_t fraction) {
  std::int64_t time = 0;
  if (__builtin_mul_overflow(seconds, second_ns, &time) || __builtin_add_overflow(time, fraction, &time)) {
    return std::nullopt;
  }
  return time;
}

std::optional<std::int64_t> parse_seconds(std::string_view text) {
  std::int64_t seconds = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc{} || text.front() == '-') {
    return std::nullopt;
  }
  text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
  const auto fraction = take_fraction(text);
  return fraction && text.empty() ? sum_of(seconds, *fraction) : std::nullopt;
}

std::optional<std::int64_t> parse_date(std::string_view text) {
  const auto year = take_number(text, 4, '-');
  const auto month = year ? take_number(text, 2, '-') : std::nullopt;
  const auto day = month ? take_number(text, 2, 'T') : std::nullopt;
  const auto hour = day ? take_number(text, 2, ':') : std::nullopt;
  const auto minute = hour ? take_number(text, 2, ':') : std::nullopt;
  const auto second = minute ? take_number(text, 2, '\0') : std::nullopt;
  const auto fraction = second ? take_fraction(text) : std::nullopt;
  if (!fraction || text != "Z" || *hour > 23 || *minute > 59 || *second > 59) {
    return std::nullopt;
  }
  const std::chrono::year_month_day date{std::chrono::year{static_cast<int>(*year)}, std::chrono::month{*month},
                                         std::chrono::day{*day}};
  if (!date.ok()) {
    return std::nullopt;
  }
  const std::int64_t days = std::chrono::sys_days{date}.time_since_epoch().count();
  return sum_of(((days * 24 + *hour) * 60 + *minute) * 60 + *second, *fraction);
}

}  // namespace

std::int64_t sample_numbers::time_of(std::int64_t sample) const noexcept {
  const auto seconds = static_cast<long double>(sample - index) / static_cast<long double>(rate);
  return *time_ns + static_cast<std::int64_t>(std::llround(seconds * second_ns));
}

std::optional<std::int64_t> parse_time(std::string_view text) {
  if (text == "now") {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<nanoseconds>(now).count();
  }
  if (text.empty()) {
    return std::nullopt;
  }
  return text.find('T') != std::string_view::npos ? parse_date(text) : parse_seconds(text);
}

std::string time_text(std::int64_t time_ns) {
  const utc_time time{nanoseconds{time_ns}};
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date{day};
  const std::chrono::hh_mm_ss clock{time - day};
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%04d-%02u-%02uT%02d:%02d:%02d.%09dZ", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                static_cast<int>(clock.hours().count()), static_cast<int>(clock.minutes().count()),
                static_cast<int>(clock.seconds().count()), static_cast<int>(clock.subseconds().count()));
  return text.data();
}

}  // namespace penstock::cli

#include "client/cli/sample_time.hpp"

#include <charconv>
#include <chrono>
#include <cmath>

#include "base/utc_time.hpp"

namespace penstock::cli {
namespace {

using std::chrono::nanoseconds;

constexpr std::int64_t second_ns = 1'000'000'000;
constexpr std::size_t nanosecond_digits = 9;

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
  return text.ends_with('Z') ? parse_utc_time(text) : parse_seconds(text);
}

}  // namespace penstock::cli

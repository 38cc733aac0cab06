#pragma once

#include <charconv>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>

namespace penstock {

/// The value of a text, or what is wrong with it.
template <typename Value>
struct quantity {
  std::optional<Value> value{};
  std::string fault{};  ///< "" where there is a value

  explicit operator bool() const noexcept { return value.has_value(); }
  const Value& operator*() const noexcept { return *value; }
};

/// The meaning of a number without a unit.
enum class bare_number { refused, seconds };

/// A number and a unit, "500us", "1.5 s"; the units are ns, us, ms, s, min (or m) and h. Rounded to nanoseconds.
[[nodiscard]] quantity<std::chrono::nanoseconds> parse_duration(std::string_view text,
                                                                bare_number bare = bare_number::refused);
/// In the largest unit that gives a whole number: "10s", "1500ms". `duration` ≥ 0. parse_duration reads it back.
[[nodiscard]] std::string print_duration(std::chrono::nanoseconds duration);

/// A number and a unit, "8 MiB", "1.5MB"; the units are B, KiB, MiB, GiB and TiB, and kB, MB, GB and TB for powers of
/// 1000. Rounded to bytes.
[[nodiscard]] quantity<std::size_t> parse_size(std::string_view text);
/// In the largest binary unit that gives a whole number: "8 MiB", "1000 B". parse_size reads it back.
[[nodiscard]] std::string print_size(std::size_t bytes);

/// A number greater than 0 without a unit, "1000", "0.5", "2e6".
[[nodiscard]] quantity<double> parse_positive(std::string_view text);

/// All of the text as a number without a unit or a leading +: decimal of integers, finite of floating point.
/// std::nullopt if it is none, or none that `Number` holds.
template <typename Number>
[[nodiscard]] std::optional<Number> parse_number(std::string_view text) noexcept {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  bool good = error == std::errc{} && rest == end;
  if constexpr (std::is_floating_point_v<Number>) {
    good = good && std::isfinite(number);
  }
  return good ? std::optional(number) : std::nullopt;
}

// For people, rounded; nothing reads it back.

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

}  // namespace penstock

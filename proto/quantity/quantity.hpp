#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace penstock {

/// What a text says, or what is wrong with it.
template <typename Value>
struct quantity {
  std::optional<Value> value{};
  std::string fault{};  ///< "" where there is a value

  explicit operator bool() const noexcept { return value.has_value(); }
  const Value& operator*() const noexcept { return *value; }
};

/// What a number without a unit means.
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

}  // namespace penstock

#include "daemon/settings/quantity.hpp"

#include <array>
#include <charconv>
#include <cstdint>
#include <limits>
#include <span>

namespace penstock {
namespace {

struct unit {
  std::string_view name;
  std::uint64_t factor;
};

// Both from the smallest to the largest.
constexpr std::array<unit, 6> durations{{{"ns", 1},
                                         {"us", 1'000},
                                         {"ms", 1'000'000},
                                         {"s", 1'000'000'000},
                                         {"min", 60'000'000'000},
                                         {"h", 3'600'000'000'000}}};
constexpr std::array<unit, 5> sizes{{{"B", 1},
                                     {"KiB", std::uint64_t{1} << 10U},
                                     {"MiB", std::uint64_t{1} << 20U},
                                     {"GiB", std::uint64_t{1} << 30U},
                                     {"TiB", std::uint64_t{1} << 40U}}};

std::optional<std::uint64_t> parse(std::string_view text, std::span<const unit> units, std::uint64_t most) {
  std::uint64_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) {
    return std::nullopt;
  }
  std::string_view name = text.substr(static_cast<std::size_t>(rest - text.data()));
  if (name.starts_with(' ')) {
    name.remove_prefix(1);
  }
  for (const unit& each : units) {
    if (each.name == name) {
      return number <= most / each.factor ? std::optional(number * each.factor) : std::nullopt;
    }
  }
  return std::nullopt;
}

const unit& largest_whole(std::uint64_t value, std::span<const unit> units) {
  const unit* best = &units.front();
  for (const unit& each : units) {
    if (value != 0 && value % each.factor == 0) {
      best = &each;
    }
  }
  return *best;
}

}  // namespace

std::optional<std::chrono::nanoseconds> parse_duration(std::string_view text) {
  constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const auto value = parse(text, durations, most);
  return value ? std::optional(std::chrono::nanoseconds(static_cast<std::int64_t>(*value))) : std::nullopt;
}

std::string print_duration(std::chrono::nanoseconds duration) {
  const auto value = static_cast<std::uint64_t>(duration.count());
  const unit& chosen = largest_whole(value, durations);
  return std::to_string(value / chosen.factor) + std::string(chosen.name);
}

std::optional<std::size_t> parse_size(std::string_view text) {
  return parse(text, sizes, std::numeric_limits<std::size_t>::max());
}

std::string print_size(std::size_t bytes) {
  const unit& chosen = largest_whole(bytes, sizes);
  return std::to_string(bytes / chosen.factor) + " " + std::string(chosen.name);
}

}  // namespace penstock

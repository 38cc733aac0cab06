#include "client/cli/quantity.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <span>
#include <utility>

namespace penstock::cli {
namespace {

struct amount {
  double number = 0;
  std::string_view unit;
};

std::optional<amount> split(std::string_view text) {
  amount read;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), read.number);
  if (error != std::errc{} || read.number < 0 || !std::isfinite(read.number)) {
    return std::nullopt;
  }
  read.unit = text.substr(static_cast<std::size_t>(end - text.data()));
  read.unit.remove_prefix(std::min(read.unit.find_first_not_of(' '), read.unit.size()));
  return read;
}

template <std::size_t Count>
std::optional<double> scale_of(const std::array<std::pair<std::string_view, double>, Count>& units,
                               std::string_view unit) {
  const auto* const found =
      std::find_if(units.begin(), units.end(), [&](const auto& each) { return each.first == unit; });
  return found == units.end() ? std::nullopt : std::optional{found->second};
}

std::string fixed(double number, int decimals) {
  std::array<char, 64> text{};
  const int length = std::snprintf(text.data(), text.size(), "%.*f", decimals, number);
  return {text.data(), static_cast<std::size_t>(std::clamp(length, 0, static_cast<int>(text.size()) - 1))};
}

/// Three significant digits, but never less than the whole number.
std::string three_digits(double number) {
  const double size = std::abs(number);
  return fixed(number, size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}

std::string with_unit(double number, std::span<const std::string_view> units) {
  constexpr double step = 1000;
  std::size_t unit = 0;
  while (std::abs(number) >= step * 0.9995 && unit + 1 < units.size()) {
    number /= step;
    ++unit;
  }
  return (unit == 0 ? fixed(number, 0) : three_digits(number)) + " " + std::string(units[unit]);
}

}  // namespace

std::optional<std::chrono::nanoseconds> parse_duration(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, double>, 7> units{
      {{"", 1e9}, {"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}}};
  const auto read = split(text);
  const auto scale = read ? scale_of(units, read->unit) : std::nullopt;
  if (!scale || read->number * *scale > 9e18) {
    return std::nullopt;
  }
  return std::chrono::nanoseconds{std::llround(read->number * *scale)};
}

std::optional<std::uint64_t> parse_bytes(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, double>, 7> units{{{"B", 1},
                                                                      {"kB", 1e3},
                                                                      {"MB", 1e6},
                                                                      {"GB", 1e9},
                                                                      {"KiB", 1024},
                                                                      {"MiB", 1024.0 * 1024},
                                                                      {"GiB", 1024.0 * 1024 * 1024}}};
  const auto read = split(text);
  const auto scale = read ? scale_of(units, read->unit) : std::nullopt;
  if (!scale || read->number * *scale > 9e18) {
    return std::nullopt;
  }
  return static_cast<std::uint64_t>(std::llround(read->number * *scale));
}

std::string duration_text(std::chrono::nanoseconds time) {
  constexpr std::array<std::string_view, 4> units{"ns", "us", "ms", "s"};
  return with_unit(static_cast<double>(time.count()), units);
}

std::string bytes_text(double bytes) {
  constexpr std::array<std::string_view, 5> units{"B", "kB", "MB", "GB", "TB"};
  return with_unit(bytes, units);
}

std::string size_text(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 5> units{"B", "KiB", "MiB", "GiB", "TiB"};
  constexpr double step = 1024;
  auto number = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (number >= step && unit + 1 < units.size()) {
    number /= step;
    ++unit;
  }
  return (number == std::floor(number) ? fixed(number, 0) : three_digits(number)) + " " + std::string(units[unit]);
}

std::string count_text(double count) {
  if (count < 10 && count != std::floor(count)) {
    return fixed(count, 2);
  }
  std::string digits = fixed(count, 0);
  const std::size_t first = digits.starts_with('-') ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) {
    at -= 3;
    digits.insert(at, 1, ',');
  }
  return digits;
}

std::string number_text(double number) {
  const double size = std::abs(number);
  if (!std::isfinite(number)) {
    return std::isnan(number) ? "nan" : number > 0 ? "inf" : "-inf";
  }
  if (size != 0 && (size < 0.001 || size >= 1e7)) {
    std::array<char, 32> text{};
    const int length = std::snprintf(text.data(), text.size(), "%.2e", number);
    return {text.data(), static_cast<std::size_t>(std::max(length, 0))};
  }
  if (size >= 999.5) {
    return count_text(number);
  }
  return size == std::floor(size) ? fixed(number, 0)
                                  : fixed(number, size >= 99.95   ? 0
                                                  : size >= 9.995 ? 1
                                                  : size >= 0.1   ? 3
                                                                  : 5);
}

}  // namespace penstock::cli

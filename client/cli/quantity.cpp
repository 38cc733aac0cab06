#include "client/cli/quantity.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <span>

namespace penstock::cli {
namespace {

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

#include "base/quantity.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <span>

namespace penstock {
namespace {

__extension__ using wide = unsigned __int128;

struct unit {
  std::string_view name;
  std::uint64_t factor;
};

// From the smallest to the largest.
constexpr std::array<unit, 7> durations{{{"ns", 1},
                                         {"us", 1'000},
                                         {"ms", 1'000'000},
                                         {"s", 1'000'000'000},
                                         {"m", 60'000'000'000},
                                         {"min", 60'000'000'000},
                                         {"h", 3'600'000'000'000}}};
constexpr std::array<unit, 5> sizes{{{"B", 1},
                                     {"KiB", std::uint64_t{1} << 10U},
                                     {"MiB", std::uint64_t{1} << 20U},
                                     {"GiB", std::uint64_t{1} << 30U},
                                     {"TiB", std::uint64_t{1} << 40U}}};
constexpr std::array<unit, 4> decimal_sizes{
    {{"kB", 1'000}, {"MB", 1'000'000}, {"GB", 1'000'000'000}, {"TB", 1'000'000'000'000}}};

constexpr std::string_view decimal_digits = "0123456789";

/// "1.5" as 15 tenths.
struct decimal {
  std::uint64_t digits = 0;
  std::uint64_t scale = 1;  ///< a power of ten
};

std::string what_is_no_number(std::string_view text) {
  if (text.empty()) {
    return "there is no number";
  }
  if (text.front() == '-' || text.front() == '+') {
    return "the number has a sign";
  }
  return "it does not begin with a number";
}

/// Takes the number off the beginning. Digits of a fraction that no unit would notice are passed over.
quantity<decimal> take_number(std::string_view& text) {
  constexpr std::size_t most_of_fraction = 18;
  decimal made;
  const std::size_t whole = std::min(text.find_first_not_of(decimal_digits), text.size());
  if (whole == 0) {
    return {{}, what_is_no_number(text)};
  }
  const auto read = [&made](std::string_view digits) {
    return std::from_chars(digits.data(), digits.data() + digits.size(), made.digits).ec == std::errc{};
  };
  if (!read(text.substr(0, whole))) {
    return {{}, "the number is too large"};
  }
  const bool has_comma = whole < text.size() && text[whole] == ',';
  if (has_comma) {
    return {{}, "a fraction follows a point, not a comma"};
  }
  const bool has_point = whole < text.size() && text[whole] == '.';
  if (!has_point) {
    text.remove_prefix(whole);
    return {made, ""};
  }
  const std::size_t end = std::min(text.find_first_not_of(decimal_digits, whole + 1), text.size());
  const std::string_view fraction = text.substr(whole + 1, end - whole - 1);
  if (fraction.empty()) {
    return {{}, "no digit follows the point"};
  }
  for (const char digit : fraction.substr(0, most_of_fraction)) {
    if (made.digits > (std::numeric_limits<std::uint64_t>::max() - 9) / 10) {
      break;
    }
    made.digits = made.digits * 10 + static_cast<std::uint64_t>(digit - '0');
    made.scale *= 10;
  }
  text.remove_prefix(end);
  return {made, ""};
}

std::string names_of(std::span<const unit> units) {
  std::string all;
  for (const unit& each : units) {
    if (each.name != "m") {  // another name of min
      all += (all.empty() ? "" : ", ") + std::string(each.name);
    }
  }
  return all;
}

const unit* find_unit(std::string_view name, std::span<const unit> units, std::span<const unit> more) {
  for (const std::span<const unit> some : {units, more}) {
    const auto found = std::find_if(some.begin(), some.end(), [&](const unit& each) { return each.name == name; });
    if (found != some.end()) {
      return &*found;
    }
  }
  return nullptr;
}

quantity<std::uint64_t> parse(std::string_view text, std::span<const unit> units, std::span<const unit> more,
                              std::string_view bare, std::uint64_t most) {
  const quantity<decimal> number = take_number(text);
  if (!number) {
    return {{}, number.fault};
  }
  if (text.starts_with(' ')) {
    text.remove_prefix(1);
  }
  const std::string_view name = text.empty() ? bare : text;
  if (name.empty()) {
    return {{}, "it has no unit"};
  }
  const unit* const found = find_unit(name, units, more);
  if (found == nullptr) {
    return {{}, "'" + std::string(name) + "' is none of the units " + names_of(units)};
  }
  const decimal& read = *number;
  const wide value = (wide{read.digits} * found->factor + read.scale / 2) / read.scale;
  if (value > most) {
    return {{}, "the number is too large"};
  }
  if (value == 0 && read.digits != 0) {
    return {{}, "it is less than 1 " + std::string(units.front().name)};
  }
  return {static_cast<std::uint64_t>(value), ""};
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

quantity<std::chrono::nanoseconds> parse_duration(std::string_view text, bare_number bare) {
  constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const quantity<std::uint64_t> read =
      parse(text, durations, {}, bare == bare_number::seconds ? std::string_view("s") : std::string_view(), most);
  return read ? quantity<std::chrono::nanoseconds>{std::chrono::nanoseconds(static_cast<std::int64_t>(*read)), ""}
              : quantity<std::chrono::nanoseconds>{{}, read.fault};
}

std::string print_duration(std::chrono::nanoseconds duration) {
  const auto value = static_cast<std::uint64_t>(duration.count());
  const unit& chosen = largest_whole(value, durations);
  return std::to_string(value / chosen.factor) + std::string(chosen.name);
}

quantity<std::size_t> parse_size(std::string_view text) {
  return parse(text, sizes, decimal_sizes, {}, std::numeric_limits<std::size_t>::max());
}

std::string print_size(std::size_t bytes) {
  const unit& chosen = largest_whole(bytes, sizes);
  return std::to_string(bytes / chosen.factor) + " " + std::string(chosen.name);
}

quantity<double> parse_positive(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view rest = text.substr(static_cast<std::size_t>(end - text.data()));
  if (error == std::errc::result_out_of_range || (error == std::errc{} && !std::isfinite(number))) {
    return {{}, "the number is out of range"};
  }
  if (error != std::errc{}) {
    return {{}, "it is no number"};
  }
  if (rest.starts_with(',')) {
    return {{}, "a fraction follows a point, not a comma, and thousands are not set apart"};
  }
  if (!rest.empty()) {
    return {{}, "'" + std::string(rest) + "' follows the number"};
  }
  return number > 0 ? quantity<double>{number, ""} : quantity<double>{{}, "it is not greater than 0"};
}

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

std::string rounded(double number, std::span<const std::string_view> units) {
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
  return rounded(static_cast<double>(time.count()), units);
}

std::string bytes_text(double bytes) {
  constexpr std::array<std::string_view, 5> units{"B", "kB", "MB", "GB", "TB"};
  return rounded(bytes, units);
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

}  // namespace penstock

#include "daemon/doctor/amount_text.hpp"

#include <array>
#include <cstdio>
#include <string_view>

#include "daemon/doctor/facts.hpp"

namespace penstock {

std::string amount_text(std::uint64_t bytes) {
  constexpr std::array<const char*, 5> units{"B", "KiB", "MiB", "GiB", "TiB"};
  if (bytes == no_limit) {
    return "no limit";
  }
  auto number = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (number >= 1024 && unit + 1 < units.size()) {
    number /= 1024;
    ++unit;
  }
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), unit == 0 || number >= 99.95 ? "%.0f %s" : "%.1f %s", number, units[unit]);
  return text.data();
}

std::string counted(std::uint64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

}  // namespace penstock

#include "client/cli/palette.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string_view>

namespace penstock::cli {
namespace {

constexpr std::array<rgb, 9> stops{{{4, 4, 16},
                                    {32, 14, 72},
                                    {76, 18, 108},
                                    {122, 30, 110},
                                    {172, 46, 92},
                                    {214, 72, 60},
                                    {242, 120, 28},
                                    {252, 180, 40},
                                    {254, 246, 176}}};
constexpr std::string_view shades = " .:-=+*#%@";

double bounded(double level) {
  return std::isfinite(level) ? std::clamp(level, 0.0, 1.0) : 0.0;
}

}  // namespace

rgb heat_color(double level) noexcept {
  const double place = bounded(level) * static_cast<double>(stops.size() - 1);
  const auto before = std::min(static_cast<std::size_t>(place), stops.size() - 2);
  const double share = place - static_cast<double>(before);
  const auto mix = [share](std::uint8_t from, std::uint8_t to) {
    return static_cast<std::uint8_t>(std::lround(from + share * (to - from)));
  };
  const rgb& from = stops[before];
  const rgb& to = stops[before + 1];
  return {mix(from.red, to.red), mix(from.green, to.green), mix(from.blue, to.blue)};
}

char heat_shade(double level) noexcept {
  const auto most = shades.size() - 1;
  return shades[std::min(static_cast<std::size_t>(bounded(level) * static_cast<double>(shades.size())), most)];
}

}  // namespace penstock::cli

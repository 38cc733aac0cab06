#include "tests/bench/matched_filter.hpp"

#include <cmath>
#include <random>

#include <fmt/format.h>

namespace penstock::bench {

// Rounded as the configuration has them.
std::vector<double> matched_filter::values() const {
  std::mt19937 random(20240608);
  const double size = std::round(1e6 / std::sqrt(static_cast<double>(taps))) / 1e6;
  std::vector<double> made;
  for (std::size_t tap = 0; tap < taps; ++tap) {
    made.push_back(random() % 2 == 0 ? size : -size);
  }
  return made;
}

std::string matched_filter::stage(const std::string& name) const {
  std::string numbers;
  for (const double value : values()) {
    numbers += fmt::format("{}{:.6f}", numbers.empty() ? "" : ", ", value);
  }
  return fmt::format(
      "[[pipeline.stage]]\nname = \"{}\"\nop = \"correlate\"\nmode = \"same\"\nmethod = \"direct\"\ntemplate = [{}]\n",
      name, numbers);
}

}  // namespace penstock::bench

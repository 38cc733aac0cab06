#include "client/cli/axis.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string_view>

namespace penstock::cli {
namespace {

struct prefix {
  double scale = 1;
  std::string_view letter;
};

prefix prefix_for(double size) {
  constexpr std::array<prefix, 6> prefixes{{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}, {1, ""}, {1e-3, "m"}, {1e-6, "u"}}};
  const auto* const fits =
      std::find_if(prefixes.begin(), prefixes.end(), [size](const prefix& each) { return size >= each.scale; });
  return fits == prefixes.end() ? prefix{} : *fits;
}

/// The smallest of 1, 2, 5 times a power of ten that is at least `least`.
double round_step(double least) {
  const double decade = std::pow(10.0, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * decade >= least * (1 - 1e-9)) {
      return factor * decade;
    }
  }
  return 10 * decade;
}

std::string label_of(double value, double step, const prefix& in, std::string_view unit) {
  const int decimals = std::clamp(static_cast<int>(-std::floor(std::log10(step / in.scale) + 1e-9)), 0, 6);
  std::array<char, 48> text{};
  const double shown = std::abs(value) < step / 1000 ? 0.0 : value / in.scale;
  const int length = std::snprintf(text.data(), text.size(), "%.*f", decimals, shown);
  std::string label{text.data(), static_cast<std::size_t>(std::max(length, 0))};
  if (!unit.empty()) {
    label.append(" ").append(in.letter).append(unit);
  }
  return label;
}

}  // namespace

std::vector<tick> axis::ticks(int at_most) const {
  const double span = high - low;
  if (!(span > 0) || !std::isfinite(span) || at_most < 1) {
    return {};
  }
  double step = round_step(span / at_most);
  double first = std::ceil(low / step - 1e-9) * step;
  while (std::floor((high - first) / step + 1e-9) + 1 > at_most) {  // both ends may have one
    step = round_step(step * 1.01);
    first = std::ceil(low / step - 1e-9) * step;
  }
  const double size = std::max(std::abs(low), std::abs(high));
  const bool whole_seconds = unit == "s" && size >= 1;  // nobody counts in kiloseconds
  const prefix in = prefixed && !whole_seconds ? prefix_for(size) : prefix{1, ""};
  std::vector<tick> all;
  for (double value = first; value <= high + step * 1e-9; value += step) {
    all.push_back({std::clamp((value - low) / span, 0.0, 1.0), label_of(value, step, in, unit)});
  }
  return all;
}

}  // namespace penstock::cli

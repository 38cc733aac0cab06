#pragma once

#include "client/cli/terminal.hpp"

namespace penstock::cli {

/// Black through violet, red and orange to pale yellow; lightness rises evenly. `level` from 0 to 1.
[[nodiscard]] rgb heat_color(double level) noexcept;
/// Blank to dense: ten shades of ASCII.
[[nodiscard]] char heat_shade(double level) noexcept;

}  // namespace penstock::cli

#include "kernels/window.hpp"

#include <array>
#include <cmath>
#include <cstddef>
#include <numbers>

namespace penstock {
namespace {

/// w[k] = constant - first cos t + second cos 2t, t = 2 pi k / length.
struct cosine_window {
  double constant;
  double first;
  double second;
};

/// In the order of window_function.
constexpr std::array<cosine_window, 4> all_windows{{
    {0.5, 0.5, 0.0},
    {0.54, 0.46, 0.0},
    {0.42, 0.5, 0.08},
    {1.0, 0.0, 0.0},
}};

}  // namespace

window_function window_function_of(const parameters& settings, std::string_view key) {
  return static_cast<window_function>(parse_choice(settings, key, {"hann", "hamming", "blackman", "rectangular"}));
}

std::vector<double> window_coefficients(window_function window, std::int64_t length) {
  const cosine_window& shape = all_windows[static_cast<std::size_t>(window)];
  std::vector<double> coefficients(static_cast<std::size_t>(length));
  for (std::size_t k = 0; k < coefficients.size(); ++k) {
    const double angle = 2.0 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(length);
    coefficients[k] = shape.constant - shape.first * std::cos(angle) + shape.second * std::cos(2.0 * angle);
  }
  return coefficients;
}

}  // namespace penstock

#include <algorithm>
#include <array>

#include "kernels/affine.hpp"
#include "kernels/convert.hpp"
#include "kernels/histogram.hpp"
#include "kernels/magnitude.hpp"
#include "kernels/moments.hpp"
#include "kernels/operation.hpp"
#include "kernels/power_spectrum.hpp"
#include "kernels/window.hpp"

namespace penstock {
namespace {

constexpr std::array<std::string_view, 2> affine_keys{"a", "b"};
constexpr std::array<std::string_view, 2> convert_keys{"to", "planar"};
constexpr std::array<std::string_view, 1> histogram_keys{"range"};
constexpr std::array<std::string_view, 1> magnitude_keys{"squared"};
constexpr std::array<std::string_view, 2> power_spectrum_keys{"window", "scale"};
constexpr std::array<std::string_view, 1> window_keys{"window"};

constexpr std::array<operator_definition, 7> all_operators{{
    {"affine", affine_keys, infer_affine, make_affine_host},
    {"convert", convert_keys, infer_convert, make_convert_host},
    {"histogram", histogram_keys, infer_histogram, make_histogram_host},
    {"magnitude", magnitude_keys, infer_magnitude, make_magnitude_host},
    {"moments", {}, infer_moments, make_moments_host},
    {"power_spectrum", power_spectrum_keys, infer_power_spectrum, make_power_spectrum_host},
    {"window", window_keys, infer_window, make_window_host},
}};

}  // namespace

std::span<const operator_definition> operator_catalogue() noexcept {
  return all_operators;
}

const operator_definition* find_operator(std::string_view name) noexcept {
  const auto* const found = std::find_if(all_operators.begin(), all_operators.end(),
                                         [name](const operator_definition& known) { return known.name == name; });
  return found == all_operators.end() ? nullptr : found;
}

}  // namespace penstock

#include <algorithm>
#include <array>
#include <iterator>

#include "kernels/accumulate.hpp"
#include "kernels/affine.hpp"
#include "kernels/concat.hpp"
#include "kernels/convert.hpp"
#include "kernels/correlate.hpp"
#include "kernels/detect.hpp"
#include "kernels/fir.hpp"
#include "kernels/fold.hpp"
#include "kernels/histogram.hpp"
#include "kernels/iir.hpp"
#include "kernels/magnitude.hpp"
#include "kernels/moments.hpp"
#include "kernels/moving_zscore.hpp"
#include "kernels/operation.hpp"
#include "kernels/power_spectrum.hpp"
#include "kernels/reframe.hpp"
#include "kernels/window.hpp"

namespace penstock {
namespace {

constexpr std::array<std::string_view, 3> accumulate_keys{"frames", "kind", "along"};
constexpr std::array<std::string_view, 2> affine_keys{"a", "b"};
constexpr std::array<std::string_view, 1> concat_keys{"axis"};
constexpr std::array<std::string_view, 2> convert_keys{"to", "planar"};
constexpr std::array<std::string_view, 4> correlate_keys{"template", "template_imag", "mode", "method"};
constexpr std::array<std::string_view, 3> detect_keys{"high", "low", "max_events"};
constexpr std::array<std::string_view, 3> fir_keys{"taps", "taps_imag", "decimation"};
constexpr std::array<std::string_view, 1> histogram_keys{"range"};
constexpr std::array<std::string_view, 1> iir_keys{"sections"};
constexpr std::array<std::string_view, 1> magnitude_keys{"squared"};
constexpr std::array<std::string_view, 4> moving_zscore_keys{"window", "floor", "output", "threshold"};
constexpr std::array<std::string_view, 1> multiply_keys{"conjugate"};
constexpr std::array<std::string_view, 2> power_spectrum_keys{"window", "scale"};
constexpr std::array<std::string_view, 1> reframe_keys{"length"};
constexpr std::array<std::string_view, 1> window_keys{"window"};

constexpr operator_definition all_operators[] = {
    {"accumulate", accumulate_keys, infer_accumulate, make_accumulate_host, accumulate_session},
    {"add", {}, infer_add, make_add_host},
    {"affine", affine_keys, infer_affine, make_affine_host, nullptr, true},
    {"concat", concat_keys, infer_concat, make_concat_host},
    {"convert", convert_keys, infer_convert, make_convert_host},
    {"correlate", correlate_keys, infer_correlate, make_correlate_host},
    {"detect", detect_keys, infer_detect, make_detect_host},
    {"fir", fir_keys, infer_fir, make_fir_host, fir_session},
    {"histogram", histogram_keys, infer_histogram, make_histogram_host},
    {"iir", iir_keys, infer_iir, make_iir_host, iir_session},
    {"magnitude", magnitude_keys, infer_magnitude, make_magnitude_host},
    {"moments", {}, infer_moments, make_moments_host},
    {"moving_zscore", moving_zscore_keys, infer_moving_zscore, make_moving_zscore_host, moving_zscore_session},
    {"multiply", multiply_keys, infer_multiply, make_multiply_host},
    {"power_spectrum", power_spectrum_keys, infer_power_spectrum, make_power_spectrum_host},
    {"reframe", reframe_keys, infer_reframe, make_reframe_host, reframe_session},
    {"window", window_keys, infer_window, make_window_host, nullptr, true},
};

}  // namespace

std::span<const operator_definition> operator_catalogue() noexcept {
  return all_operators;
}

const operator_definition* find_operator(std::string_view name) noexcept {
  const auto* const found = std::find_if(std::begin(all_operators), std::end(all_operators),
                                         [name](const operator_definition& known) { return known.name == name; });
  return found == std::end(all_operators) ? nullptr : found;
}

}  // namespace penstock

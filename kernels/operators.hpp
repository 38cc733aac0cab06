#pragma once

#include "kernels/accumulate.hpp"
#include "kernels/affine.hpp"
#include "kernels/along_axis.hpp"
#include "kernels/bch.hpp"
#include "kernels/channelize.hpp"
#include "kernels/clock.hpp"
#include "kernels/concat.hpp"
#include "kernels/convert.hpp"
#include "kernels/convolve.hpp"
#include "kernels/correlate.hpp"
#include "kernels/demodulate.hpp"
#include "kernels/detect.hpp"
#include "kernels/detrend.hpp"
#include "kernels/fir.hpp"
#include "kernels/fold.hpp"
#include "kernels/fourier.hpp"
#include "kernels/frame_sync.hpp"
#include "kernels/histogram.hpp"
#include "kernels/iir.hpp"
#include "kernels/magnitude.hpp"
#include "kernels/matmul.hpp"
#include "kernels/mel.hpp"
#include "kernels/mix.hpp"
#include "kernels/moments.hpp"
#include "kernels/moving_zscore.hpp"
#include "kernels/power_spectrum.hpp"
#include "kernels/reduce.hpp"
#include "kernels/reframe.hpp"
#include "kernels/resample.hpp"
#include "kernels/slice.hpp"
#include "kernels/stft.hpp"
#include "kernels/top.hpp"
#include "kernels/transpose.hpp"
#include "kernels/unpack.hpp"
#include "kernels/window.hpp"

/// The operators that work on rows: X(NAME, keeps_axis), as in row_operator.
#define PENSTOCK_ROW_OPERATORS(X) \
  X(bch, true)                    \
  X(correlate, true)              \
  X(detect, false)                \
  X(detrend, true)                \
  X(fft, true)                    \
  X(histogram, false)             \
  X(ifft, true)                   \
  X(matmul, true)                 \
  X(mel, true)                    \
  X(moments, false)               \
  X(power_spectrum, true)         \
  X(top, false)                   \
  X(window, true)

/// The operators that keep state along steps of a session: X(NAME, time_axes, OTHERWISE), as in step_operator. With
/// settings that make one keep none, infer_NAMEOTHERWISE and make_NAMEOTHERWISE take its place.
#define PENSTOCK_STEP_OPERATORS(X) \
  X(accumulate, 1, )               \
  X(channelize, 1, )               \
  X(clock, 0, )                    \
  X(demodulate, 1, )               \
  X(detect, 0, _along_axis)        \
  X(fir, 1, )                      \
  X(iir, 1, )                      \
  X(istft, 1, )                    \
  X(mix, 1, )                      \
  X(moving_zscore, 1, )            \
  X(reframe, 2, )                  \
  X(resample, 1, )                 \
  X(stft, 1, )

/// Every operator, sorted by name: X(NAME, session, overwrites, KEYS...), as in operator_definition. Each has
/// parse_NAME, whose result has an `output`, make_NAME_host and make_NAME_cuda. docs/first-operator.md says what else a
/// new one needs.
#define PENSTOCK_OPERATORS(X)                                                                                        \
  X(accumulate, accumulate_session, false, "frames", "kind", "along", "every", "on_nan", "axis")                     \
  X(add, nullptr, false)                                                                                             \
  X(affine, nullptr, true, "a", "b")                                                                                 \
  X(bch, nullptr, false, "generator", "length", "errors", "parity", "axis")                                          \
  X(channelize, channelize_session, false, "channels", "hop", "taps", "axis")                                        \
  X(clock, clock_session, false, "omega", "detector", "gain_mu", "gain_omega", "limit", "mu", "output", "axis")      \
  X(concat, nullptr, false, "axis")                                                                                  \
  X(convert, nullptr, false, "to", "scale", "planar")                                                                \
  X(convolve, nullptr, false, "weights", "bias", "stride", "padding", "dilation", "groups", "activation", "compute") \
  X(correlate, nullptr, false, "template", "template_imag", "templates", "mode", "method", "axis")                   \
  X(demodulate, demodulate_session, false, "kind", "gain", "axis")                                                   \
  X(detect, detect_session, false, "high", "low", "max_events", "along", "gap", "min_length", "axis")                \
  X(detrend, nullptr, false, "type", "axis")                                                                         \
  X(fft, nullptr, false, "half", "shift", "norm", "axis")                                                            \
  X(fir, fir_session, false, "taps", "taps_imag", "decimation", "method", "on_nan", "axis")                          \
  X(frame_sync, frame_sync_session, false, "word", "errors", "polarity", "rows", "length")                           \
  X(histogram, nullptr, false, "range", "axis")                                                                      \
  X(ifft, nullptr, false, "half", "length", "shift", "norm", "axis")                                                 \
  X(iir, iir_session, false, "sections", "on_nan", "axis")                                                           \
  X(istft, istft_session, false, "length", "hop", "padding", "window", "window_length", "half", "axis")              \
  X(magnitude, nullptr, false, "squared")                                                                            \
  X(matmul, nullptr, false, "weights", "bias", "activation", "compute", "repeatable", "weights_in", "tile_bytes",    \
    "engine", "axis")                                                                                                \
  X(mel, nullptr, false, "rate", "count", "low", "high", "scale", "norm", "length", "axis")                          \
  X(mix, mix_session, false, "frequency", "rate", "phase", "axis")                                                   \
  X(moments, nullptr, false, "order", "axis")                                                                        \
  X(moving_zscore, moving_zscore_session, false, "window", "floor", "output", "threshold", "gap", "hold", "on_nan",  \
    "axis")                                                                                                          \
  X(multiply, nullptr, false, "conjugate", "by", "by_imag", "by_shape")                                              \
  X(power_spectrum, nullptr, false, "window", "scale", "floor", "axis")                                              \
  X(reduce, nullptr, false, "function", "axis")                                                                      \
  X(reframe, reframe_session, false, "length", "hop", "padding", "axis")                                             \
  X(resample, resample_session, false, "up", "down", "taps", "taps_imag", "axis")                                    \
  X(slice, nullptr, false, "index", "start", "stop", "step", "axis")                                                 \
  X(stft, stft_session, false, "length", "hop", "padding", "window", "window_length", "axis")                        \
  X(top, nullptr, false, "count", "smallest", "axis")                                                                \
  X(transpose, nullptr, false, "axes")                                                                               \
  X(unpack, nullptr, false, "format", "order")                                                                       \
  X(window, nullptr, true, "window", "axis")

namespace penstock {

/// What an operator's parse_NAME says of its output; it may take one input or several.
template <class Settings>
[[nodiscard]] tensor_spec output_of(Settings (*parse)(const parameters&, const tensor_spec&), std::string_view name,
                                    const parameters& settings, std::span<const tensor_spec> inputs) {
  return parse(settings, sole_input(name, inputs)).output;
}
template <class Settings>
[[nodiscard]] tensor_spec output_of(Settings (*parse)(const parameters&, std::span<const tensor_spec>),
                                    std::string_view /*name*/, const parameters& settings,
                                    std::span<const tensor_spec> inputs) {
  return parse(settings, inputs).output;
}

}  // namespace penstock

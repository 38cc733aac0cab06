#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/operation.hpp"
#include "kernels/operator_checks.hpp"
#include "kernels/reframe.hpp"
#include "kernels/session.hpp"
#include "kernels/window.hpp"

namespace penstock {

/// stft and istft: the short-time Fourier transform of a session, and its inverse by overlap-add. Their definitions are
/// torch.stft's and torch.istft's.
///
///   stft   X[r, k] = sum_i w[i] x[r·hop − padding + i] exp(−2 pi j i k / N),  i = 0 … N − 1
///   istft  x[m] = sum_r w[t − r·hop] y[r, t − r·hop] / sum_r w²[t − r·hop],  t = m + padding
/// y[r] being the inverse transform of X[r]; of rows r ≥ 0 whose window reaches t. Steps before the session's start are
/// 0. With padding = N / 2 that is center = True with pad_mode = "constant", without padding center = False.
/// An istft gives, with row r, the `hop` results that no later row reaches; the last N − hop of a session wait. Where a
/// sum of w² is below 1e-11, as at the first samples without padding, the result is 0.
/// stft is reframe, window and fft in one; istft is ifft and an overlap-add (J. B. Allen, IEEE Trans. Acoust. Speech
/// Signal Process. 25, 1977; D. W. Griffin, J. S. Lim, ibid. 32, 1984). Results do not depend on how the session is cut
/// into frames.
///
/// stft   Input: f32 or cf32, [steps, channels...]; steps may be "max N". Output: cf32 [rows, channels..., bins], N / 2
/// +
///        1 bins for f32 and N for cf32; rows as reframe has them.
/// istft  Input: cf32 [rows, channels..., bins]; rows may be "max N". Output: [rows · hop, channels...], f32, or cf32
///        with half = false. With a fixed number of rows padding is 0, as each frame must give as many results.
/// Parameters:
///   length         N, integer, 1 … 2²⁴: stft requires it; istft takes 2 (bins − 1), or bins with half = false
///   hop            integer, at least 1, of istft at most the window's length; default a quarter of that
///   padding        integer, 0 … N − 1, default 0
///   window         window.hpp
///   window_length  integer, 1 … N, default N: the window stands in the middle of N values, the others are 0
///   half           istft only, default true: spectra of real signals
///   axis           along_axis.hpp; for istft not the bins
/// State: stft the last N − 1 steps (at least one); istft the last ⌈N / hop⌉ − 1 rows (at least one), which on the host
/// are their sum.
/// Within 1e-6 of the sum of |w| times the peak of a row's steps; the inverse within 1e-6 of the peak of its rows' y
/// times sum |w| / sum w². A NaN or an infinity reaches the rows that have it, and one in a bin the results of its row,
/// but for those at which the bin's wave is 0.
struct stft_window {
  std::int64_t length = 1;  ///< N
  std::int64_t hop = 1;
  std::int64_t padding = 0;
  std::vector<float> weights;  ///< N
};

struct stft_settings {
  stft_window window;
  reframe_settings frames;
  std::int64_t channels = 1;
  tensor_spec input;
  tensor_spec rows;  ///< windowed: [rows, channels..., N]
  tensor_spec output;

  [[nodiscard]] std::int64_t bins() const noexcept { return output.shape.back(); }
  [[nodiscard]] std::size_t state_bytes() const noexcept {
    return static_cast<std::size_t>(frames.kept) * frames.step_bytes;
  }
};

struct istft_settings {
  stft_window window;
  bool half = true;
  std::int64_t channels = 1;
  std::int64_t before = 0;   ///< rows that reach into a later one: ⌈N / hop⌉ − 1
  std::vector<float> scale;  ///< 1 / sum w² of result j behind min(r, before) rows: [before + 1, hop]
  tensor_spec input;
  tensor_spec rows;  ///< transformed: [rows, channels..., N]
  tensor_spec output;

  [[nodiscard]] step_rate rate() const noexcept {
    return {.divisor = 1, .offset = -window.padding, .multiplier = window.hop};
  }
};

inline constexpr std::int64_t most_stft_length = std::int64_t{1} << 24;

/// What stft and istft share; the length is known.
[[nodiscard]] inline stft_window parse_stft_window(const parameters& settings, std::int64_t length) {
  stft_window parsed;
  parsed.length = length;
  const std::int64_t own = parse_integer(settings, "window_length", 1, length, length);
  parsed.hop =
      parse_integer(settings, "hop", 1, std::numeric_limits<std::int32_t>::max(), std::max<std::int64_t>(own / 4, 1));
  parsed.padding = parse_integer(settings, "padding", 0, length - 1, 0);
  parsed.weights.assign(static_cast<std::size_t>(length), 0.0F);
  auto to = parsed.weights.begin() + (length - own) / 2;
  for (const double w : window_coefficients(window_function_of(settings, "window"), own)) {
    *to++ = static_cast<float>(w);
  }
  return parsed;
}

/// Throws parameter_error.
[[nodiscard]] inline stft_settings parse_stft(const parameters& settings, const tensor_spec& input) {
  require_element_type("stft", input, {element_type::f32, element_type::cf32});
  stft_settings parsed;
  parsed.window = parse_stft_window(settings, parse_integer(settings, "length", 1, most_stft_length));
  parameters frames;
  frames.set("length", parsed.window.length);
  frames.set("hop", parsed.window.hop);
  frames.set("padding", parsed.window.padding);
  parsed.frames = parse_reframe(frames, input);
  parsed.channels = input.elements() / input.shape.front();
  parsed.input = input;
  parsed.rows = input;
  parsed.rows.shape.front() = parsed.frames.output.shape.front();
  parsed.rows.shape.push_back(parsed.window.length);
  parsed.output = parsed.rows;
  parsed.output.type = element_type::cf32;
  parsed.output.shape.back() = is_complex(input.type) ? parsed.window.length : parsed.window.length / 2 + 1;
  return parsed;
}

/// 1 / sum w², see istft_settings; the sum is of all rows from `before` on.
[[nodiscard]] inline std::vector<float> overlap_scale(const stft_window& window, std::int64_t before) {
  constexpr double least = 1e-11;
  std::vector<float> scale;
  for (std::int64_t rows = 0; rows <= before; ++rows) {
    for (std::int64_t at = 0; at < window.hop; ++at) {
      double sum = 0;
      for (std::int64_t row = 0; row <= rows && at + row * window.hop < window.length; ++row) {
        const double weight = window.weights[static_cast<std::size_t>(at + row * window.hop)];
        sum += weight * weight;
      }
      scale.push_back(sum >= least ? static_cast<float>(1.0 / sum) : 0.0F);
    }
  }
  return scale;
}

/// Throws parameter_error.
[[nodiscard]] inline istft_settings parse_istft(const parameters& settings, const tensor_spec& input) {
  require_element_type("istft", input, {element_type::cf32});
  if (input.shape.size() < 2) {
    throw parameter_error("from", "'istft' takes rows of bins, not " + input.text());
  }
  if (parse_axis(settings, input, 0) + 1 == input.shape.size()) {
    throw parameter_error("axis", "can't be the last one, along which the bins of a spectrum lie");
  }
  istft_settings parsed;
  parsed.half = settings.flag("half", true);
  const std::int64_t bins = input.shape.back();
  const std::int64_t usual = parsed.half ? std::max<std::int64_t>(2 * (bins - 1), 1) : bins;
  const std::int64_t length = parse_integer(settings, "length", 1, most_stft_length, usual);
  if (bins != (parsed.half ? length / 2 + 1 : length)) {
    throw parameter_error("length", "of " + std::to_string(length) + " has " +
                                        std::to_string(parsed.half ? length / 2 + 1 : length) + " bins, and " +
                                        input.text() + " has " + std::to_string(bins));
  }
  parsed.window = parse_stft_window(settings, length);
  const stft_window& window = parsed.window;
  if (window.hop > length) {
    throw parameter_error(
        "hop", "must be at most 'length', " + std::to_string(length) + ", not " + std::to_string(window.hop));
  }
  if (!input.variable && window.padding != 0) {
    throw parameter_error("padding", "must be 0, so that each frame of " + input.text() +
                                         " gives as many results, or the input be \"max " +
                                         std::to_string(input.shape.front()) + "\"");
  }
  parsed.before = (length + window.hop - 1) / window.hop - 1;
  parsed.scale = overlap_scale(window, parsed.before);
  if (std::find(parsed.scale.end() - window.hop, parsed.scale.end(), 0.0F) != parsed.scale.end()) {
    throw parameter_error(
        "hop", "of " + std::to_string(window.hop) + " leaves results that no window reaches: use a smaller one");
  }
  parsed.input = input;
  parsed.rows = input;
  parsed.rows.type = parsed.half ? element_type::f32 : element_type::cf32;
  parsed.rows.shape.back() = length;
  parsed.output = parsed.rows;
  parsed.output.shape.pop_back();
  parsed.channels = parsed.output.elements() / input.shape.front();
  if (parsed.rate().most(input.shape.front()) > std::numeric_limits<std::int32_t>::max()) {
    throw parameter_error("hop", "makes more than 2147483647 steps of a frame");
  }
  parsed.output.shape.front() = parsed.rate().most(input.shape.front());
  return parsed;
}

/// The settings of the `ifft` of its rows.
[[nodiscard]] inline parameters inverse_of(const istft_settings& settings) {
  parameters inverse;
  if (settings.half) {
    inverse.set("half", true);
    inverse.set("length", settings.window.length);
  }
  return inverse;
}

[[nodiscard]] inline std::optional<session_traits> stft_session(const parameters& settings,
                                                                std::span<const tensor_spec> inputs) {
  const stft_settings parsed = parse_stft(settings, sole_input("stft", inputs));
  return session_traits{.rate = parsed.frames.rate(), .delay = static_cast<double>(parsed.window.length - 1)};
}

[[nodiscard]] inline std::optional<session_traits> istft_session(const parameters& settings,
                                                                 std::span<const tensor_spec> inputs) {
  return session_traits{.rate = parse_istft(settings, sole_input("istft", inputs)).rate()};
}

[[nodiscard]] std::unique_ptr<operation> make_stft_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_istft_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_stft_cuda(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_istft_cuda(const operation_request& request);

}  // namespace penstock

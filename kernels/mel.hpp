#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/operation.hpp"
#include "kernels/operator_checks.hpp"
#include "kernels/tensor.hpp"

namespace penstock {

/// mel: sums of the bins of a spectrum under triangles that stand evenly on the mel scale.
///
///   M[..., m] = sum_k h[m, k] S[..., k]
///   h[m, k] = max(0, min((f[k] − c[m]) / (c[m + 1] − c[m]), (c[m + 2] − f[k]) / (c[m + 2] − c[m + 1])))
/// f[k] = k · rate / N; c[0] … c[count + 1] stand evenly from `low` to `high` on the scale:
///   htk     2595 log10(1 + f / 700)
///   slaney  3 f / 200 below 1000 Hz, 15 + 27 ln(f / 1000) / ln 6.4 from there on
/// (S. S. Stevens, J. Volkmann, E. B. Newman, J. Acoust. Soc. Am. 8, 1937; S. Young et al., The HTK Book; M. Slaney,
/// Auditory Toolbox, 1998.) These are torchaudio.functional.melscale_fbanks and librosa.filters.mel.
///
/// Input: f32, any shape whose last extent, the bins, is fixed. Output: f32, [..., count].
/// Parameters:
///   rate    number above 0, required: samples a second of what the spectrum is of
///   count   integer, 1 … 4096, default 128
///   low     number from 0, in Hz, default 0
///   high    number above low, in Hz, default rate / 2
///   scale   "htk" (default) | "slaney"
///   norm    "none" (default): triangles of height 1 | "slaney": of area 1 over f in Hz, h · 2 / (c[m + 2] − c[m])
///   length  N, of which the bins are N / 2 + 1; default 2 (bins − 1)
///   axis    along_axis.hpp
/// Sums are in float64. Within 1e-6 of the largest |S| under a triangle times its sum. A NaN or an infinity reaches the
/// triangles that have it.
struct mel_settings {
  /// Weights first … first + count − 1 of a triangle lie from `offset` on.
  struct triangle {
    std::int32_t first = 0;
    std::int32_t count = 0;
    std::int64_t offset = 0;
  };

  std::vector<triangle> triangles;
  std::vector<float> weights;
  frame_rows rows;  ///< of the input; the output has as many
  tensor_spec input;
  tensor_spec output;
};

/// A frequency in Hz on the mel scale, and back.
class mel_scale {
 public:
  explicit mel_scale(bool slaney) noexcept : slaney_{slaney} {}

  [[nodiscard]] double mel_of(double frequency) const noexcept {
    if (!slaney_) {
      return 2595.0 * std::log10(1.0 + frequency / 700.0);
    }
    return frequency < 1000.0 ? 3.0 * frequency / 200.0 : 15.0 + std::log(frequency / 1000.0) / step();
  }
  [[nodiscard]] double frequency_of(double mel) const noexcept {
    if (!slaney_) {
      return 700.0 * (std::pow(10.0, mel / 2595.0) - 1.0);
    }
    return mel < 15.0 ? 200.0 * mel / 3.0 : 1000.0 * std::exp(step() * (mel - 15.0));
  }

 private:
  [[nodiscard]] static double step() noexcept { return std::log(6.4) / 27.0; }

  bool slaney_;
};

inline void make_triangles(mel_settings& parsed, const mel_scale& scale, const std::vector<double>& range,
                           double bin_width, bool unit_area) {
  const auto count = static_cast<std::size_t>(parsed.output.shape.back());
  const std::int64_t bins = parsed.input.shape.back();
  const double low = scale.mel_of(range[0]);
  const double step = (scale.mel_of(range[1]) - low) / static_cast<double>(count + 1);
  std::vector<double> corners;
  for (std::size_t at = 0; at < count + 2; ++at) {
    corners.push_back(scale.frequency_of(low + step * static_cast<double>(at)));
  }
  for (std::size_t at = 0; at < count; ++at) {
    const double left = corners[at];
    const double middle = corners[at + 1];
    const double right = corners[at + 2];
    mel_settings::triangle made{.offset = static_cast<std::int64_t>(parsed.weights.size())};
    const double first = std::max(std::ceil(left / bin_width), 0.0);
    for (auto bin = static_cast<std::int64_t>(std::min(first, static_cast<double>(bins))); bin < bins; ++bin) {
      const double frequency = static_cast<double>(bin) * bin_width;
      if (frequency >= right) {
        break;
      }
      const double height = std::min((frequency - left) / (middle - left), (right - frequency) / (right - middle));
      if (height <= 0 && made.count == 0) {
        continue;
      }
      made.first = made.count == 0 ? static_cast<std::int32_t>(bin) : made.first;
      ++made.count;
      parsed.weights.push_back(static_cast<float>(std::max(height, 0.0) * (unit_area ? 2.0 / (right - left) : 1.0)));
    }
    parsed.triangles.push_back(made);
  }
}

/// Throws parameter_error.
[[nodiscard]] inline mel_settings parse_mel(const parameters& settings, const tensor_spec& input) {
  require_element_type("mel", input, {element_type::f32});
  require_fixed_last_axis("mel", input);
  const double rate = settings.number("rate");
  if (!(std::isfinite(rate) && rate > 0)) {
    throw parameter_error("rate", "must be a number above 0, in Hz");
  }
  const std::int64_t bins = input.shape.back();
  const std::int64_t length =
      parse_integer(settings, "length", 1, std::int64_t{1} << 31, std::max<std::int64_t>(2 * (bins - 1), 1));
  if (length / 2 + 1 != bins) {
    throw parameter_error("length", "of " + std::to_string(length) + " has " + std::to_string(length / 2 + 1) +
                                        " bins, and " + input.text() + " has " + std::to_string(bins));
  }
  const std::vector<double> range{settings.number("low", 0.0), settings.number("high", rate / 2)};
  if (!(std::isfinite(range[0]) && range[0] >= 0)) {
    throw parameter_error("low", "must be a number from 0, in Hz");
  }
  if (!(std::isfinite(range[1]) && range[1] > range[0])) {
    throw parameter_error("high", "must be a number above 'low', in Hz");
  }
  mel_settings parsed;
  parsed.rows = frame_rows{input};
  parsed.input = input;
  parsed.output = input;
  parsed.output.shape.back() = parse_integer(settings, "count", 1, 4096, 128);
  const bool slaney = parse_choice(settings, "scale", {"htk", "slaney"}) == 1;
  const bool unit_area = parse_choice(settings, "norm", {"none", "slaney"}) == 1;
  make_triangles(parsed, mel_scale{slaney}, range, rate / static_cast<double>(length), unit_area);
  return parsed;
}

[[nodiscard]] std::unique_ptr<operation> make_mel_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_mel_cuda(const operation_request& request);

}  // namespace penstock

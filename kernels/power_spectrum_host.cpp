#include "kernels/power_spectrum.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numbers>
#include <utility>

#include "kernels/function_attributes.hpp"
#include "kernels/row_fft_host.hpp"

namespace penstock {
namespace {

PENSTOCK_VECTOR_CLONES void weigh(const float* __restrict in, const float* __restrict weights, float* __restrict out,
                                  std::size_t length, bool complex) {
  if (complex) {
    for (std::size_t i = 0; i < length; ++i) {
      out[2 * i] = weights[i] * in[2 * i];
      out[2 * i + 1] = weights[i] * in[2 * i + 1];
    }
  } else {
    for (std::size_t i = 0; i < length; ++i) {
      out[i] = weights[i] * in[i];
    }
  }
}

PENSTOCK_VECTOR_CLONES void powers(const float* __restrict bins, float* __restrict out, std::size_t count) {
  for (std::size_t k = 0; k < count; ++k) {
    out[k] = bins[2 * k] * bins[2 * k] + bins[2 * k + 1] * bins[2 * k + 1];
  }
}

/// 10 log10 of a normal, positive number times 2^twos, without a call, so that the loop vectorises: x = m 2^e with m in
/// [sqrt 1/2, sqrt 2), ln m = 2 artanh s with s = (m - 1) / (m + 1), |s| < 0.172; the series ends where the next term,
/// s^11 / 11, is below f32's resolution.
[[gnu::always_inline]] inline float decibels_of(float x, std::int32_t twos) noexcept {
  constexpr std::uint32_t root_half = 0x3F3504F3U;
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x) - root_half;
  const auto exponent = static_cast<float>((static_cast<std::int32_t>(bits) >> 23) + twos);
  const float m = std::bit_cast<float>((bits & 0x007FFFFFU) + root_half);
  const float s = (m - 1.0F) / (m + 1.0F);
  const float t = s * s;
  const float series = 1.0F + t * (1.0F / 3.0F + t * (1.0F / 5.0F + t * (1.0F / 7.0F + t * (1.0F / 9.0F))));
  constexpr auto per_octave = static_cast<float>(10.0 * std::numbers::ln2 / std::numbers::ln10);
  constexpr auto per_neper = static_cast<float>(20.0 / std::numbers::ln10);
  return exponent * per_octave + s * series * per_neper;
}

/// The squares are of parts that are divided by the larger one's power of two.
PENSTOCK_VECTOR_CLONES void decibels(const float* __restrict bins, float* __restrict out, std::size_t count,
                                     float mantissa, std::int32_t twos, float floor) {
  for (std::size_t k = 0; k < count; ++k) {
    const std::int32_t re_bits = std::bit_cast<std::int32_t>(bins[2 * k]) & 0x7fffffff;
    const std::int32_t im_bits = std::bit_cast<std::int32_t>(bins[2 * k + 1]) & 0x7fffffff;
    const std::int32_t larger = re_bits > im_bits ? re_bits : im_bits;
    const std::int32_t exponent = (larger & 0x7f800000) < 0x7e800000 ? larger & 0x7f800000 : 0x7e800000;
    const float down = std::bit_cast<float>(0x7f000000 - exponent);
    const float re = bins[2 * k] * down;
    const float im = bins[2 * k + 1] * down;
    const float power = (re * re + im * im) * mantissa;
    const float level = decibels_of(power, 2 * ((exponent >> 23) - 127) + twos);
    const float floored = level < floor ? floor : level;
    out[k] = power <= std::numeric_limits<float>::max() ? floored : power;
  }
}

class power_spectrum_host final : public operation {
 public:
  explicit power_spectrum_host(power_spectrum_settings settings)
      : settings_{std::move(settings)},
        transform_{settings_.length, settings_.complex_input ? fft_plan::kind::complex : fft_plan::kind::real} {}

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override {
    return (row_space() + spectrum_space() + transform_.scratch_space()) * sizeof(float);
  }

  [[nodiscard]] bool single_pass() const noexcept override { return true; }
  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    const auto rows = static_cast<std::size_t>(settings_.rows.count(arguments.extent));
    const auto bins = static_cast<std::size_t>(settings_.bins);
    const auto* in = static_cast<const float*>(arguments.inputs[0]);
    auto* out = static_cast<float*>(arguments.output);
    auto* const weighted = static_cast<float*>(arguments.scratch);
    float* const spectrum = weighted + row_space();
    float* const steps = spectrum + spectrum_space();
    for (std::size_t row = 0; row < rows; ++row, in += row_values(), out += bins) {
      weigh(in, settings_.coefficients.data(), weighted, settings_.coefficients.size(), settings_.complex_input);
      transform_.execute(weighted, spectrum, steps);
      if (settings_.decibels) {
        decibels(spectrum, out, bins, scale_.mantissa, scale_.exponent, settings_.floor);
      } else {
        powers(spectrum, out, bins);
      }
    }
    return {};
  }

 private:
  [[nodiscard]] std::size_t row_values() const noexcept {
    return static_cast<std::size_t>(settings_.length) * (settings_.complex_input ? 2 : 1);
  }
  [[nodiscard]] std::size_t row_space() const noexcept { return fft_plan::aligned_space(row_values()); }
  [[nodiscard]] std::size_t spectrum_space() const noexcept {
    return fft_plan::aligned_space(2 * static_cast<std::size_t>(settings_.bins));
  }

  const power_spectrum_settings settings_;
  const power_factor scale_{settings_.power_scale};
  const row_fft transform_;
};

}  // namespace

std::unique_ptr<operation> make_power_spectrum_host(const operation_request& request) {
  return std::make_unique<power_spectrum_host>(parse_power_spectrum(request.settings, request.inputs[0]));
}

}  // namespace penstock

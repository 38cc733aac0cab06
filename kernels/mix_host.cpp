#include "kernels/mix.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <utility>

#include "kernels/function_attributes.hpp"

namespace penstock {
namespace {

/// An oscillator's values at the steps of a block that begins at a multiple of its length are one value times a table.
constexpr std::int64_t oscillator_block = 256;

struct oscillator_value {
  double re;
  double im;
};

oscillator_value value_at(std::uint64_t phase) noexcept {
  const double angle = std::ldexp(static_cast<double>(static_cast<std::int64_t>(phase)), -63) * std::numbers::pi;
  return {std::cos(angle), std::sin(angle)};
}

/// Real and imaginary parts, apart.
struct oscillator_table {
  std::array<float, oscillator_block> re;
  std::array<float, oscillator_block> im;
};

/// One channel.
template <bool Complex>
[[gnu::always_inline]] inline void mix_steps(const float* table_re, const float* table_im, oscillator_value start,
                                             const float* in, float* out, std::int64_t count) noexcept {
  const auto start_re = static_cast<float>(start.re);
  const auto start_im = static_cast<float>(start.im);
  for (std::int64_t step = 0; step < count; ++step) {
    const float re = start_re * table_re[step] - start_im * table_im[step];
    const float im = start_re * table_im[step] + start_im * table_re[step];
    if constexpr (Complex) {
      const float x = in[2 * step];
      const float y = in[2 * step + 1];
      out[2 * step] = re * x - im * y;
      out[2 * step + 1] = re * y + im * x;
    } else {
      out[2 * step] = re * in[step];
      out[2 * step + 1] = im * in[step];
    }
  }
}

PENSTOCK_VECTOR_CLONES void mix_real(const float* table_re, const float* table_im, oscillator_value start,
                                     const float* __restrict in, float* __restrict out, std::int64_t count) {
  mix_steps<false>(table_re, table_im, start, in, out, count);
}
PENSTOCK_VECTOR_CLONES void mix_complex(const float* table_re, const float* table_im, oscillator_value start,
                                        const float* __restrict in, float* __restrict out, std::int64_t count) {
  mix_steps<true>(table_re, table_im, start, in, out, count);
}

/// All channels of one step.
template <bool Complex>
[[gnu::always_inline]] inline void mix_row(float re, float im, const float* __restrict in, float* __restrict out,
                                           std::int64_t channels) noexcept {
  for (std::int64_t channel = 0; channel < channels; ++channel) {
    if constexpr (Complex) {
      const float x = in[2 * channel];
      const float y = in[2 * channel + 1];
      out[2 * channel] = re * x - im * y;
      out[2 * channel + 1] = re * y + im * x;
    } else {
      out[2 * channel] = re * in[channel];
      out[2 * channel + 1] = im * in[channel];
    }
  }
}

PENSTOCK_VECTOR_CLONES void mix_rows(bool complex, const float* oscillator, const float* __restrict in,
                                     float* __restrict out, std::int64_t count, std::int64_t channels) {
  for (std::int64_t step = 0; step < count; ++step) {
    if (complex) {
      mix_row<true>(oscillator[2 * step], oscillator[2 * step + 1], in + 2 * step * channels, out + 2 * step * channels,
                    channels);
    } else {
      mix_row<false>(oscillator[2 * step], oscillator[2 * step + 1], in + step * channels, out + 2 * step * channels,
                     channels);
    }
  }
}

class mix_host final : public operation {
 public:
  explicit mix_host(mix_settings settings) : settings_{std::move(settings)} {
    ones_.fill(1.0F);
    for (std::int64_t step = 0; step < oscillator_block; ++step) {
      const auto at = static_cast<std::size_t>(step);
      const oscillator_value value = value_at(oscillator_phase(settings_.step, 0, at));
      table_.re[at] = static_cast<float>(value.re);
      table_.im[at] = static_cast<float>(value.im);
    }
  }

  [[nodiscard]] std::size_t state_bytes() const noexcept override { return mix_settings::state_bytes; }

  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    const std::int64_t elements = settings_.input.elements(arguments.extent.leading);
    const auto* in = static_cast<const float*>(arguments.inputs[0]);
    auto* out = static_cast<float*>(arguments.output);
    for (std::int64_t index = 0; index < arguments.extent.frames; ++index) {
      mix_frame(arguments.session.frames[index], in, out);
      in += elements * parts();
      out += elements * 2;
    }
    return {};
  }

 private:
  [[nodiscard]] std::int64_t parts() const noexcept { return settings_.complex_input ? 2 : 1; }

  void mix_frame(const session_frame& frame, const float* in, float* out) const noexcept {
    for (std::int64_t done = 0; done < frame.steps;) {
      const std::int64_t into = (frame.position + done) % oscillator_block;
      const std::int64_t count = std::min(oscillator_block - into, frame.steps - done);
      const auto block = static_cast<std::uint64_t>(frame.position + done - into);
      const oscillator_value start = value_at(oscillator_phase(settings_.step, settings_.phase, block));
      const float* const re = table_.re.data() + into;
      const float* const im = table_.im.data() + into;
      const std::int64_t first = done * settings_.channels;
      if (settings_.channels == 1) {
        (settings_.complex_input ? mix_complex : mix_real)(re, im, start, in + first * parts(), out + first * 2, count);
      } else {
        std::array<float, 2 * oscillator_block> oscillator;
        mix_real(re, im, start, ones_.data(), oscillator.data(), count);
        mix_rows(settings_.complex_input, oscillator.data(), in + first * parts(), out + first * 2, count,
                 settings_.channels);
      }
      done += count;
    }
  }

  const mix_settings settings_;
  oscillator_table table_;
  std::array<float, oscillator_block> ones_;
};

}  // namespace

std::unique_ptr<operation> make_mix_host(const operation_request& request) {
  return std::make_unique<mix_host>(parse_mix(request.settings, request.inputs[0]));
}

}  // namespace penstock

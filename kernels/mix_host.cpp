#include "kernels/mix.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
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

  /// Each value is a product of one of the first few and one of those that are so many steps apart.
  void fill(const cycle_fraction& step) noexcept {
    constexpr std::uint64_t side = 16;
    static_assert(side * side == oscillator_block);
    std::array<oscillator_value, side> near;
    for (std::uint64_t at = 0; at < side; ++at) {
      near[at] = value_at((step * at).high);
    }
    for (std::uint64_t first = 0; first < side; ++first) {
      const oscillator_value far = value_at((step * (first * side)).high);
      for (std::uint64_t at = 0; at < side; ++at) {
        re[first * side + at] = static_cast<float>(far.re * near[at].re - far.im * near[at].im);
        im[first * side + at] = static_cast<float>(far.re * near[at].im + far.im * near[at].re);
      }
    }
  }
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

class mix_host : public operation {
 public:
  explicit mix_host(mix_settings settings) : settings_{std::move(settings)} {
    ones_.fill(1.0F);
    table_.fill(settings_.tuned.step);
  }

  [[nodiscard]] std::size_t state_bytes() const noexcept override { return mix_settings::state_bytes(false); }

  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    for (std::int32_t index = 0; index < arguments.extent.frames; ++index) {
      mix_frame(arguments, index, settings_.tuned, table_);
    }
    return {};
  }

 protected:
  void mix_frame(const operation_arguments& arguments, std::int32_t index, const oscillator& tuned,
                 const oscillator_table& table) const noexcept {
    const session_frame& frame = arguments.session.frames[index];
    const std::int64_t pitch = settings_.input.elements(arguments.extent.leading);
    const float* const in = static_cast<const float*>(arguments.inputs[0]) + index * pitch * parts();
    float* const out = static_cast<float*>(arguments.output) + index * pitch * 2;
    for (std::int64_t done = 0; done < frame.steps;) {
      const std::int64_t into = (frame.position + done) % oscillator_block;
      const std::int64_t count = std::min(oscillator_block - into, frame.steps - done);
      const oscillator_value start = value_at(tuned.phase(static_cast<std::uint64_t>(frame.position + done - into)));
      const float* const re = table.re.data() + into;
      const float* const im = table.im.data() + into;
      const std::int64_t first = done * settings_.channels;
      if (settings_.channels == 1) {
        (settings_.complex_input ? mix_complex : mix_real)(re, im, start, in + first * parts(), out + first * 2, count);
      } else {
        std::array<float, 2 * oscillator_block> values;
        mix_real(re, im, start, ones_.data(), values.data(), count);
        mix_rows(settings_.complex_input, values.data(), in + first * parts(), out + first * 2, count,
                 settings_.channels);
      }
      done += count;
    }
  }

  const mix_settings settings_;

 private:
  [[nodiscard]] std::int64_t parts() const noexcept { return settings_.complex_input ? 2 : 1; }

  oscillator_table table_;
  std::array<float, oscillator_block> ones_;
};

/// With a frequency of each frame. The state is the oscillator.
class tuned_mix_host final : public mix_host {
 public:
  using mix_host::mix_host;

  [[nodiscard]] std::size_t state_bytes() const noexcept override { return mix_settings::state_bytes(true); }

  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    oscillator_table table;
    table.fill(settings_.tuned.step);
    cycle_fraction filled = settings_.tuned.step;
    for (std::int32_t first = 0; first < arguments.extent.frames; ++first) {
      const session_frame* frame = &arguments.session.frames[first];
      if (frame->previous >= 0) {
        continue;
      }
      oscillator tuned = settings_.tuned;
      if (frame->position > 0) {
        std::memcpy(&tuned, arguments.session.half(frame->place, frame->half), sizeof(tuned));
      }
      for (std::int32_t index = first; index >= 0; index = frame->next) {
        frame = &arguments.session.frames[index];
        tuned.retune(fraction_of(arguments.numbers[index], settings_.rate),
                     static_cast<std::uint64_t>(frame->position));
        if (filled != tuned.step) {
          table.fill(tuned.step);
          filled = tuned.step;
        }
        mix_frame(arguments, index, tuned, table);
      }
      std::memcpy(arguments.session.half(frame->place, 1 - frame->half), &tuned, sizeof(tuned));
    }
    return {};
  }
};

}  // namespace

std::unique_ptr<operation> make_mix_host(const operation_request& request) {
  mix_settings settings = parse_mix(request.settings, request.inputs[0]);
  if (request.tuned) {
    return std::make_unique<tuned_mix_host>(std::move(settings));
  }
  return std::make_unique<mix_host>(std::move(settings));
}

}  // namespace penstock

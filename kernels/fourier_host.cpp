#include "kernels/fourier.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "kernels/function_attributes.hpp"
#include "kernels/row_fft_host.hpp"

namespace penstock {
namespace {

PENSTOCK_VECTOR_CLONES void scale(const float* __restrict from, float* __restrict to, std::size_t values,
                                  float factor) {
  for (std::size_t at = 0; at < values; ++at) {
    to[at] = factor * from[at];
  }
}

/// to[i] = factor · conj(from[count − 1 − i]).
PENSTOCK_VECTOR_CLONES void scale_mirrored(const float* __restrict from, float* __restrict to, std::size_t count,
                                           float factor) {
  for (std::size_t at = 0; at < count; ++at) {
    to[2 * at] = factor * from[2 * (count - 1 - at)];
    to[2 * at + 1] = -factor * from[2 * (count - 1 - at) + 1];
  }
}

[[nodiscard]] fft_plan::kind kind_of(const fourier_settings& settings) noexcept {
  if (settings.inverse) {
    return settings.half ? fft_plan::kind::real_inverse : fft_plan::kind::complex_inverse;
  }
  return settings.complex_input ? fft_plan::kind::complex : fft_plan::kind::real;
}

[[nodiscard]] std::size_t floats_of(const tensor_spec& spec) noexcept {
  return static_cast<std::size_t>(spec.shape.back()) * (is_complex(spec.type) ? 2 : 1);
}

class fourier_host final : public operation {
 public:
  explicit fourier_host(fourier_settings settings)
      : settings_{std::move(settings)},
        row_floats_{floats_of(settings_.input)},
        result_floats_{floats_of(settings_.output)},
        transform_{settings_.length, kind_of(settings_), fft_plan::input::kept} {}

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override {
    return (2 * row_space() + transform_.scratch_space()) * sizeof(float);
  }

  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    const auto rows = static_cast<std::size_t>(settings_.rows.count(arguments.extent));
    const auto* in = static_cast<const float*>(arguments.inputs[0]);
    auto* out = static_cast<float*>(arguments.output);
    auto* const scratch = static_cast<float*>(arguments.scratch);
    const row_scratch memory{scratch, scratch + row_space(), scratch + 2 * row_space()};
    for (std::size_t row = 0; row < rows; ++row, in += row_floats_, out += result_floats_) {
      if (settings_.inverse) {
        invert(in, out, memory);
      } else {
        transform(in, out, memory);
      }
    }
    return {};
  }

 private:
  struct row_scratch {
    float* before;  ///< of what is transformed
    float* behind;  ///< of the transform
    float* steps;   ///< of what the transform needs itself
  };

  /// Floats that hold either side of a transform.
  [[nodiscard]] std::size_t row_space() const noexcept {
    return fft_plan::aligned_space(2 * static_cast<std::size_t>(settings_.length) + 2);
  }

  void transform(const float* in, float* out, const row_scratch& memory) const noexcept {
    const auto [before, behind, steps] = memory;
    if (!fft_plan::takes(in)) {
      std::copy_n(in, row_floats_, before);
      in = before;
    }
    const bool whole_of_real = !settings_.complex_input && !settings_.half;
    if (settings_.is_plain() && !whole_of_real && fft_plan::takes(out)) {
      transform_.execute(in, out, steps);
      return;
    }
    transform_.execute(in, behind, steps);
    if (settings_.half) {
      scale(behind, out, result_floats_, settings_.scale);
      return;
    }
    // Bins up to `turn` go behind where bin 0 stands, the others before it.
    const auto length = static_cast<std::size_t>(settings_.length);
    const auto shift = static_cast<std::size_t>(settings_.shift);
    const std::size_t turn = length - shift;
    take_bins(behind, 0, turn, out + 2 * shift);
    take_bins(behind, turn, length, out);
  }

  /// Bins `first` to `end` of a row; those that a real row does not have mirror the others.
  void take_bins(const float* spectrum, std::size_t first, std::size_t end, float* out) const noexcept {
    const auto length = static_cast<std::size_t>(settings_.length);
    const std::size_t stored = settings_.complex_input ? length : length / 2 + 1;
    const std::size_t middle = std::clamp(stored, first, end);
    scale(spectrum + 2 * first, out, 2 * (middle - first), settings_.scale);
    scale_mirrored(spectrum + 2 * (length - end + 1), out + 2 * (middle - first), end - middle, settings_.scale);
  }

  void invert(const float* in, float* out, const row_scratch& memory) const noexcept {
    const auto [before, behind, steps] = memory;
    const auto length = static_cast<std::size_t>(settings_.length);
    if (settings_.half) {
      const std::size_t used = length / 2 + 1;
      const std::size_t given = std::min(used, static_cast<std::size_t>(settings_.bins));
      scale(in, before, 2 * given, settings_.scale);
      std::fill(before + 2 * given, before + 2 * used, 0.0F);
      before[1] = 0.0F;
      if (length % 2 == 0) {
        before[length + 1] = 0.0F;
      }
      in = before;
    } else if (!settings_.is_plain() || !fft_plan::takes(in)) {
      const auto shift = static_cast<std::size_t>(settings_.shift);
      scale(in + 2 * shift, before, 2 * (length - shift), settings_.scale);
      scale(in, before + 2 * (length - shift), 2 * shift, settings_.scale);
      in = before;
    }
    if (fft_plan::takes(out)) {
      transform_.execute(in, out, steps);
    } else {
      transform_.execute(in, behind, steps);
      std::copy_n(behind, result_floats_, out);
    }
  }

  const fourier_settings settings_;
  const std::size_t row_floats_;
  const std::size_t result_floats_;
  const row_fft transform_;
};

}  // namespace

std::unique_ptr<operation> make_fft_host(const operation_request& request) {
  return std::make_unique<fourier_host>(parse_fft(request.settings, request.inputs[0]));
}

std::unique_ptr<operation> make_ifft_host(const operation_request& request) {
  return std::make_unique<fourier_host>(parse_ifft(request.settings, request.inputs[0]));
}

}  // namespace penstock

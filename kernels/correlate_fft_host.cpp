#include <algorithm>
#include <cstddef>
#include <utility>

#include "kernels/correlate.hpp"
#include "kernels/correlate_blocks.hpp"
#include "kernels/fft_correlation.hpp"
#include "kernels/vector_clones.hpp"

namespace penstock {
namespace {

/// (re, im) pairs of real values.
PENSTOCK_VECTOR_CLONES void widen(const float* __restrict in, float* __restrict out, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    out[2 * i] = in[i];
    out[2 * i + 1] = 0.0F;
  }
}

/// Block after block. The scratch holds a block's samples, what they are transformed in, and a template that comes with
/// the frames; that of a parameter is kept.
class correlate_fft_host final : public operation {
 public:
  explicit correlate_fft_host(correlate_settings settings)
      : settings_{std::move(settings)},
        blocks_{plan_correlate_blocks(settings_)},
        complex_{settings_.complex_output()},
        correlation_{blocks_.length, settings_.template_length, complex_},
        kept_template_{settings_.coefficients.empty() ? 0 : correlation_.template_space()} {
    if (kept_template_.data() != nullptr) {
      aligned_floats samples(correlation_.sample_space());
      set_template(settings_.coefficients.data(), samples.data(), kept_template_.data());
    }
  }

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override {
    return (correlation_.sample_space() + correlation_.scratch_space() + correlation_.template_space()) * sizeof(float);
  }

  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    const auto rows = static_cast<std::size_t>(settings_.rows.count(arguments.extent));
    const auto rows_a_template = static_cast<std::size_t>(settings_.rows_a_template(arguments.extent));
    const std::size_t in_step = static_cast<std::size_t>(settings_.length) * (settings_.complex_signal ? 2 : 1);
    const std::size_t out_step = static_cast<std::size_t>(settings_.results) * (complex_ ? 2 : 1);
    auto* const samples = static_cast<float*>(arguments.scratch);
    float* const scratch = samples + correlation_.sample_space();
    float* const of_frame = scratch + correlation_.scratch_space();
    const float* const of_template = kept_template_.data() == nullptr ? of_frame : kept_template_.data();
    const auto* in = static_cast<const float*>(arguments.inputs[0]);
    auto* out = static_cast<float*>(arguments.output);
    for (std::size_t row = 0; row < rows; ++row, in += in_step, out += out_step) {
      if (of_template == of_frame && row % rows_a_template == 0) {
        const auto* const templates = static_cast<const float*>(arguments.inputs[1]);
        set_template(templates + row / rows_a_template * template_values(), samples, of_frame);
      }
      for (std::int64_t block = 0; block < blocks_.count; ++block) {
        correlate_block(block, in, samples, scratch, of_template, out);
      }
    }
    return {};
  }

 private:
  [[nodiscard]] std::size_t length() const noexcept { return static_cast<std::size_t>(blocks_.length); }

  /// Elements first … first + length() - 1 of a row of `count` elements; zeros beyond its ends.
  void load(const float* row, std::int64_t count, bool complex_row, std::int64_t first, float* out) const noexcept {
    const std::int64_t begin = std::clamp<std::int64_t>(-first, 0, blocks_.length);
    const std::int64_t end = std::clamp<std::int64_t>(count - first, begin, blocks_.length);
    const std::size_t in_width = complex_row ? 2 : 1;
    const std::size_t out_width = complex_ ? 2 : 1;
    const auto present = static_cast<std::size_t>(end - begin);
    const float* const from = row + (first + begin) * static_cast<std::int64_t>(in_width);
    float* const to = out + static_cast<std::size_t>(begin) * out_width;
    std::fill(out, to, 0.0F);
    if (in_width == out_width) {
      std::copy(from, from + present * in_width, to);
    } else {
      widen(from, to, present);
    }
    std::fill(to + present * out_width, out + length() * out_width, 0.0F);
  }

  [[nodiscard]] std::size_t template_values() const noexcept {
    return static_cast<std::size_t>(settings_.template_length) * (settings_.complex_template ? 2 : 1);
  }

  void set_template(const float* taps, float* samples, float* of_template) const noexcept {
    load(taps, settings_.template_length, settings_.complex_template, 0, samples);
    correlation_.set_template(samples, of_template);
  }

  void correlate_block(std::int64_t block, const float* row, float* samples, float* scratch, const float* of_template,
                       float* out) const noexcept {
    const std::int64_t first = block * blocks_.step;
    const auto count = static_cast<std::size_t>(std::min(blocks_.step, settings_.results - first));
    load(row, settings_.length, settings_.complex_signal, settings_.start() + first, samples);
    correlation_.run(samples, scratch, of_template, out + first * (complex_ ? 2 : 1), count);
  }

  const correlate_settings settings_;
  const correlate_blocks blocks_;
  const bool complex_;  ///< the transforms are of complex rows
  const fft_correlation correlation_;
  aligned_floats kept_template_;  ///< of the parameter's template
};

}  // namespace

std::unique_ptr<operation> make_fft_correlate_host(correlate_settings settings) {
  return std::make_unique<correlate_fft_host>(std::move(settings));
}

}  // namespace penstock

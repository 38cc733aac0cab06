#include <algorithm>
#include <cstddef>
#include <utility>

#include "kernels/correlate_blocks.hpp"
#include "kernels/fft_correlation.hpp"
#include "kernels/fir.hpp"
#include "kernels/session_runs.hpp"

namespace penstock {
namespace {

/// Elements of one or two floats that lie so many floats apart.
struct spaced {
  std::int64_t count;
  std::int64_t from_stride;
  std::int64_t to_stride;
  std::int64_t parts;
};

void copy_spaced(const float* from, float* to, const spaced& elements) noexcept {
  if (elements.from_stride == elements.parts && elements.to_stride == elements.parts) {
    std::copy_n(from, elements.count * elements.parts, to);
    return;
  }
  for (std::int64_t part = 0; part < elements.parts; ++part) {
    for (std::int64_t at = 0; at < elements.count; ++at) {
      to[at * elements.to_stride + part] = from[at * elements.from_stride + part];
    }
  }
}

/// Overlap-save (A. V. Oppenheim, R. W. Schafer, Discrete-Time Signal Processing, section 8.7): channel by channel, in
/// blocks that begin with the K − 1 steps before the first of their outputs. With D > 1 every D-th output of a block is
/// kept.
class fir_fft_host final : public operation {
 public:
  explicit fir_fft_host(fir_settings settings)
      : settings_{std::move(settings)},
        complex_{is_complex(settings_.output.type)},
        blocks_{plan_fir_blocks(settings_)},
        correlation_{blocks_.length, settings_.length(), complex_},
        of_taps_{correlation_.template_space()} {
    aligned_floats samples(correlation_.sample_space());
    const auto last = settings_.taps.size() - 1;
    for (std::size_t k = 0; k <= last; ++k) {
      samples.data()[complex_ ? 2 * k : k] = settings_.taps[last - k];
      if (settings_.complex_taps()) {
        samples.data()[2 * k + 1] = -settings_.taps_imag[last - k];
      }
    }
    correlation_.set_template(samples.data(), of_taps_.data());
  }

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override {
    return (2 * correlation_.sample_space() + correlation_.scratch_space()) * sizeof(float);
  }
  [[nodiscard]] std::size_t state_bytes() const noexcept override { return settings_.state_bytes(); }

  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    const batch_extent& extent = arguments.extent;
    const session_history<float> history{
        .input = static_cast<const float*>(arguments.inputs[0]),
        .session = arguments.session,
        .pitch = settings_.input.elements(extent.leading) * in_parts(),
        .channels = settings_.channels * in_parts(),
        .length = settings_.kept,
    };
    auto* const samples = static_cast<float*>(arguments.scratch);
    const block_memory memory{samples, samples + correlation_.sample_space(),
                              samples + 2 * correlation_.sample_space()};
    const std::int64_t out_pitch = settings_.output.elements(settings_.rate().most(extent.leading)) * out_parts();
    auto* out = static_cast<float*>(arguments.output);
    for (std::int32_t index = 0; index < extent.frames; ++index, out += out_pitch) {
      for (std::int64_t channel = 0; channel < settings_.channels; ++channel) {
        filter_channel(history, index, channel, memory, out + channel * out_parts());
      }
    }
    keep_steps(history, extent.frames);
    return {};
  }

 private:
  /// Of one block.
  struct block_memory {
    float* samples;
    float* results;
    float* scratch;
  };

  [[nodiscard]] std::int64_t in_parts() const noexcept { return is_complex(settings_.input.type) ? 2 : 1; }
  [[nodiscard]] std::int64_t out_parts() const noexcept { return complex_ ? 2 : 1; }

  void filter_channel(const session_history<float>& history, std::int32_t index, std::int64_t channel,
                      const block_memory& memory, float* out) const noexcept {
    const session_frame& frame = history.session.frames[index];
    const std::int64_t every = settings_.decimation;
    const std::int64_t in_block = std::max<std::int64_t>(1, blocks_.step / every);
    std::int64_t step = first_kept_step(frame.position, every);
    for (std::int64_t done = 0; done < frame.produced; done += in_block, step += in_block * every) {
      const std::int64_t outputs = std::min(in_block, frame.produced - done);
      const std::int64_t results = every * (outputs - 1) + 1;
      load(history, index, channel, step - (settings_.length() - 1), results + settings_.length() - 1, memory.samples);
      correlation_.run(memory.samples, memory.scratch, of_taps_.data(), memory.results,
                       static_cast<std::size_t>(results), static_cast<std::size_t>(every));
      const std::int64_t out_stride = settings_.channels * out_parts();
      copy_spaced(memory.results, out + done * out_stride, {outputs, every * out_parts(), out_stride, out_parts()});
    }
  }

  /// One channel's `count` steps from `first` on, then zeros up to the block's length.
  void load(const session_history<float>& history, std::int32_t index, std::int64_t channel, std::int64_t first,
            std::int64_t count, float* samples) const noexcept {
    const std::int64_t given = in_parts() == out_parts() ? count : 0;  // others leave imaginary parts
    std::fill(samples + given * out_parts(), samples + blocks_.length * out_parts(), 0.0F);
    visit_runs(history, index, first, count, [&](const float* from, std::int64_t offset, std::int64_t steps) {
      float* const to = samples + offset * out_parts();
      if (from == nullptr) {
        std::fill_n(to, steps * out_parts(), 0.0F);
      } else {
        copy_spaced(from + channel * in_parts(), to, {steps, history.channels, out_parts(), in_parts()});
      }
    });
  }

  const fir_settings settings_;
  const bool complex_;  ///< the transforms are of complex samples
  const correlate_blocks blocks_;
  const fft_correlation correlation_;
  aligned_floats of_taps_;
};

}  // namespace

correlate_blocks plan_fir_blocks(const fir_settings& settings) {
  const std::int64_t steps = settings.input.shape.front();
  return plan_correlate_blocks(steps, settings.length(), steps + settings.length() - 1);
}

std::unique_ptr<operation> make_fft_fir_host(fir_settings settings) {
  return std::make_unique<fir_fft_host>(std::move(settings));
}

}  // namespace penstock

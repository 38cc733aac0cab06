#include "kernels/channelize.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "kernels/fft_host.hpp"
#include "kernels/function_attributes.hpp"

namespace penstock {
namespace {

/// out[i] += taps[i / 2] · in[i], of complex numbers.
[[gnu::always_inline]] inline void add_weighted(const float* taps, const float* in, float* out,
                                                std::int64_t count) noexcept {
  for (std::int64_t at = 0; at < count; ++at) {
    out[2 * at] += taps[at] * in[2 * at];
    out[2 * at + 1] += taps[at] * in[2 * at + 1];
  }
}

/// The taps, oldest step first, from the first of them that meets a step of each residue modulo the channels: folded[q]
/// is the sum over all steps `oldest + q` modulo `channels`, where `steps` begins with the oldest.
PENSTOCK_VECTOR_CLONES void fold(const float* taps, std::int64_t count, std::int64_t channels, const float* steps,
                                 float* folded) {
  std::fill_n(folded, 2 * channels, 0.0F);
  for (std::int64_t first = 0; first < count; first += channels) {
    add_weighted(taps + first, steps + 2 * first, folded, std::min(channels, count - first));
  }
}

/// Each output: its steps times the taps, folded to M values, turned to the places of the transform. FFTW transforms
/// forward, exp(−2πj…), so the values go in backwards.
class channelize_host final : public operation {
 public:
  explicit channelize_host(channelize_settings settings)
      : settings_{std::move(settings)},
        taps_(settings_.taps.rbegin(), settings_.taps.rend()),
        transform_{settings_.channels, fft_plan::kind::complex},
        tile_{tile_outputs()} {}

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override {
    return (tile_space() + 3 * row_space()) * sizeof(float);
  }
  [[nodiscard]] std::size_t state_bytes() const noexcept override { return settings_.state_bytes(); }

  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    const batch_extent& extent = arguments.extent;
    const session_history<float> history{
        .input = static_cast<const float*>(arguments.inputs[0]),
        .session = arguments.session,
        .pitch = settings_.input.elements(extent.leading) * parts(),
        .channels = settings_.inputs * parts(),
        .length = settings_.kept,
    };
    auto* const tile = static_cast<float*>(arguments.scratch);
    const std::int64_t out_pitch = 2 * settings_.output.elements(settings_.rate().most(extent.leading));
    auto* out = static_cast<float*>(arguments.output);
    for (std::int32_t index = 0; index < extent.frames; ++index, out += out_pitch) {
      const session_frame& frame = arguments.session.frames[index];
      for (std::int64_t done = 0; done < frame.produced; done += tile_) {
        for (std::int64_t input = 0; input < settings_.inputs; ++input) {
          divide(history, index, input, {done, std::min<std::int64_t>(tile_, frame.produced - done)}, tile, out);
        }
      }
    }
    keep_steps(history, extent.frames);
    return {};
  }

 private:
  struct output_range {
    std::int64_t first;
    std::int64_t count;
  };

  [[nodiscard]] std::int64_t parts() const noexcept { return is_complex(settings_.input.type) ? 2 : 1; }
  /// So many that the steps before a tile are few beside its own.
  [[nodiscard]] std::int64_t tile_outputs() const noexcept {
    const std::int64_t steps = std::max<std::int64_t>(4096, settings_.length());
    return std::clamp<std::int64_t>(steps / settings_.hop, 1, settings_.output.shape.front());
  }
  [[nodiscard]] std::size_t tile_space() const noexcept {
    return fft_plan::aligned_space(static_cast<std::size_t>(2 * ((tile_ - 1) * settings_.hop + settings_.length())));
  }
  [[nodiscard]] std::size_t row_space() const noexcept {
    return fft_plan::aligned_space(static_cast<std::size_t>(2 * settings_.channels));
  }

  void divide(const session_history<float>& history, std::int32_t index, std::int64_t input, const output_range& range,
              float* tile, float* out) const noexcept {
    const std::int64_t position = history.session.frames[index].position;
    const std::int64_t channels = settings_.channels;
    const std::int64_t taps = settings_.length();
    const std::int64_t first = channelize_place_of(position, range.first, channels, settings_.hop).newest - (taps - 1);
    load(history, index, input, first, (range.count - 1) * settings_.hop + taps, tile);
    float* const folded = tile + tile_space();
    float* const placed = folded + row_space();
    float* const spectrum = placed + row_space();
    for (std::int64_t at = 0; at < range.count; ++at) {
      fold(taps_.data(), taps, channels, tile + 2 * at * settings_.hop, folded);
      // folded[q] is of age taps − 1 − q, which goes to `place` + age; backwards, to −place − taps + 1 + q.
      const std::int64_t place = channelize_place_of(position, range.first + at, channels, settings_.hop).place;
      const std::int64_t start = (2 * channels - place - (taps - 1) % channels) % channels;
      std::copy_n(folded, 2 * (channels - start), placed + 2 * start);
      std::copy_n(folded + 2 * (channels - start), 2 * start, placed);
      transform_.execute(placed, spectrum);
      std::copy_n(spectrum, 2 * channels, out + 2 * channels * ((range.first + at) * settings_.inputs + input));
    }
  }

  /// One input's `count` steps from `first` on, as complex numbers.
  void load(const session_history<float>& history, std::int32_t index, std::int64_t input, std::int64_t first,
            std::int64_t count, float* tile) const noexcept {
    visit_runs(history, index, first, count, [&](const float* source, std::int64_t offset, std::int64_t steps) {
      float* const to = tile + 2 * offset;
      if (source == nullptr) {
        std::fill_n(to, 2 * steps, 0.0F);
      } else if (parts() == 2 && settings_.inputs == 1) {
        std::copy_n(source, 2 * steps, to);
      } else {
        for (std::int64_t step = 0; step < steps; ++step) {
          const float* const from = source + step * history.channels + input * parts();
          to[2 * step] = from[0];
          to[2 * step + 1] = parts() == 2 ? from[1] : 0.0F;
        }
      }
    });
  }

  const channelize_settings settings_;
  const std::vector<float> taps_;  ///< oldest step first
  const fft_plan transform_;
  const std::int64_t tile_;  ///< outputs of a tile, at most
};

}  // namespace

std::unique_ptr<operation> make_channelize_host(const operation_request& request) {
  return std::make_unique<channelize_host>(parse_channelize(request.settings, request.inputs[0]));
}

}  // namespace penstock

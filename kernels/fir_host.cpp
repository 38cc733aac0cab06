#include "kernels/fir.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "kernels/correlate_blocks.hpp"
#include "kernels/session_runs.hpp"
#include "kernels/vector_clones.hpp"

namespace penstock {
namespace {

/// Products of the sum for one of the operations that correlate_blocks counts, of real samples, above which a filter
/// goes through the transform. Measured on one core: they take as long at 3 with AVX-512 and at 2 with AVX2; the sum
/// rounds less, and a value that is not finite costs it nothing.
constexpr double products_an_operation = 6.0;

/// One product of the sum: a tap, and where the values that it goes with begin in the tile.
struct placed_tap {
  float value;
  std::int64_t offset;
};

/// Outputs that are summed side by side; the compiler keeps each such vector in one register, or in two.
using lanes = float __attribute__((vector_size(32)));
using lanes_anywhere = float __attribute__((vector_size(32), aligned(alignof(float)), may_alias));
constexpr std::size_t lane_count = sizeof(lanes) / sizeof(float);

/// The first `values` of the outputs of `Vectors` vectors.
template <std::size_t Vectors>
[[gnu::always_inline]] inline void filter_lanes(const float* tile, const std::vector<placed_tap>& taps, float* out,
                                                std::size_t values) noexcept {
  double total[Vectors * lane_count] = {};
  for (std::size_t first = 0; first < taps.size(); first += fir_partial) {
    const std::size_t end = std::min<std::size_t>(first + fir_partial, taps.size());
    lanes partial[Vectors] = {};
    for (std::size_t tap = first; tap < end; ++tap) {
      const float value = taps[tap].value;
      const auto* const from = reinterpret_cast<const lanes_anywhere*>(tile + taps[tap].offset);
#pragma GCC unroll 4
      for (std::size_t vector = 0; vector < Vectors; ++vector) {
        partial[vector] += value * from[vector];
      }
    }
    for (std::size_t lane = 0; lane < Vectors * lane_count; ++lane) {
      total[lane] += static_cast<double>(partial[lane / lane_count][lane % lane_count]);
    }
  }
  for (std::size_t lane = 0; lane < values; ++lane) {
    out[lane] = static_cast<float>(total[lane]);
  }
}

/// out[i] = sum of taps[k].value · tile[taps[k].offset + i] for each of `values` outputs. Reads up to lane_count − 1
/// values behind the tile, for lanes that it then drops.
PENSTOCK_VECTOR_CLONES void filter_tile(const float* tile, const std::vector<placed_tap>& taps, float* out,
                                        std::size_t values) {
  constexpr std::size_t wide = 4;
  std::size_t done = 0;
  for (; done + wide * lane_count <= values; done += wide * lane_count) {
    filter_lanes<wide>(tile + done, taps, out + done, wide * lane_count);
  }
  for (; done < values; done += lane_count) {
    filter_lanes<1>(tile + done, taps, out + done, std::min(lane_count, values - done));
  }
}

/// A frame is filtered tile by tile. A tile of T outputs holds the input steps t = 0 … D·(T − 1) + K − 1 that they
/// need, in phases: step t is row t / D of phase t mod D. The step that goes with output m and tap k is t = D·m + r,
/// with r = K − 1 − k, that is row m + r / D of phase r mod D; so for each tap the values of all outputs lie in one
/// row, the outputs' own order, whatever the decimation and the number of channels. Phases that no tap looks at are
/// left out.
///
/// With complex taps the tile holds z and, in a second part, j·z: y = sum re(h)·z + im(h)·(j·z), in which each product
/// is again one of real numbers.
class fir_host final : public operation {
 public:
  explicit fir_host(fir_settings settings)
      : settings_{std::move(settings)},
        in_width_{settings_.channels * (is_complex(settings_.input.type) ? 2 : 1)},
        width_{settings_.channels * (is_complex(settings_.output.type) ? 2 : 1)},
        phases_{std::min(settings_.decimation, settings_.length())},
        tile_{tile_outputs()},
        rows_{tile_ + (settings_.length() - 1) / settings_.decimation} {
    place_taps(settings_.taps, 0);
    if (settings_.complex_taps()) {
      place_taps(settings_.taps_imag, part_values());
    }
  }

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override {
    const std::int64_t parts = settings_.complex_taps() ? 2 : 1;
    return (static_cast<std::size_t>(parts * part_values()) + lane_count) * sizeof(float);
  }
  [[nodiscard]] std::size_t state_bytes() const noexcept override { return settings_.state_bytes(); }

  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    const batch_extent& extent = arguments.extent;
    const session_history<float> history{
        .input = static_cast<const float*>(arguments.inputs[0]),
        .session = arguments.session,
        .pitch = settings_.input.elements(extent.leading) / settings_.channels * in_width_,
        .channels = in_width_,
        .length = settings_.kept,
    };
    const std::int64_t leading = settings_.rate().most(extent.leading);
    const std::int64_t out_pitch = settings_.output.elements(leading) / settings_.channels * width_;
    auto* const tile = static_cast<float*>(arguments.scratch);
    auto* out = static_cast<float*>(arguments.output);
    for (std::int32_t index = 0; index < extent.frames; ++index, out += out_pitch) {
      filter_frame(history, index, tile, out);
    }
    keep_steps(history, extent.frames);
    return {};
  }

 private:
  /// So many that the tile fits the first or the second cache, and that the history which each begins with is no more
  /// than what is new in it.
  [[nodiscard]] std::int64_t tile_outputs() const noexcept {
    const std::int64_t cached = 8192 / (phases_ * width_);
    const std::int64_t past = settings_.length() / settings_.decimation;
    return std::clamp<std::int64_t>(std::max(cached, past), 1, settings_.rate().most(settings_.input.shape.front()));
  }
  [[nodiscard]] std::int64_t part_values() const noexcept { return phases_ * rows_ * width_; }

  void place_taps(const std::vector<float>& values, std::int64_t part) {
    for (std::int64_t phase = 0; phase < phases_; ++phase) {
      for (std::int64_t r = phase; r < settings_.length(); r += settings_.decimation) {
        const std::int64_t offset = part + (phase * rows_ + r / settings_.decimation) * width_;
        taps_.push_back({values[static_cast<std::size_t>(settings_.length() - 1 - r)], offset});
      }
    }
  }

  void filter_frame(const session_history<float>& history, std::int32_t index, float* tile, float* out) noexcept {
    const session_frame& frame = history.session.frames[index];
    const std::int64_t first = first_kept_step(frame.position, settings_.decimation) - (settings_.length() - 1);
    for (std::int64_t done = 0; done < frame.produced; done += tile_) {
      const std::int64_t outputs = std::min<std::int64_t>(tile_, frame.produced - done);
      const std::int64_t steps = settings_.decimation * (outputs - 1) + settings_.length();
      visit_runs(history, index, first + settings_.decimation * done, steps,
                 [&](const float* from, std::int64_t offset, std::int64_t count) { stage(from, offset, count, tile); });
      filter_tile(tile, taps_, out + done * width_, static_cast<std::size_t>(outputs * width_));
    }
  }

  /// Puts `count` steps, of which the first is step `offset` of the tile, into their rows.
  void stage(const float* from, std::int64_t offset, std::int64_t count, float* tile) const noexcept {
    const std::int64_t every = settings_.decimation;
    for (std::int64_t phase = 0; phase < phases_; ++phase) {
      const std::int64_t skipped = (phase - offset % every + every) % every;
      float* to = tile + (phase * rows_ + (offset + skipped) / every) * width_;
      if (every == 1 && from != nullptr && width_ == in_width_ && !settings_.complex_taps()) {
        std::copy_n(from, count * width_, to);
        continue;
      }
      for (std::int64_t step = skipped; step < count; step += every, to += width_) {
        stage_step(from == nullptr ? nullptr : from + step * in_width_, to);
      }
    }
  }

  void stage_step(const float* from, float* to) const noexcept {
    if (!settings_.complex_taps()) {
      for (std::int64_t value = 0; value < width_; ++value) {
        to[value] = from == nullptr ? 0.0F : from[value];
      }
      return;
    }
    float* const turned = to + part_values();
    const bool complex_input = in_width_ == width_;
    for (std::int64_t channel = 0; channel < settings_.channels; ++channel) {
      const float re = from == nullptr ? 0.0F : from[complex_input ? 2 * channel : channel];
      const float im = from == nullptr || !complex_input ? 0.0F : from[2 * channel + 1];
      to[2 * channel] = re;
      to[2 * channel + 1] = im;
      turned[2 * channel] = -im;
      turned[2 * channel + 1] = re;
    }
  }

  const fir_settings settings_;
  const std::int64_t in_width_;  ///< floats of a step of the input
  const std::int64_t width_;     ///< floats of a step of the tile and of the output
  const std::int64_t phases_;
  const std::int64_t tile_;  ///< outputs of a tile, at most
  const std::int64_t rows_;  ///< of a phase
  std::vector<placed_tap> taps_;
};

bool sum_takes_longer(const fir_settings& settings) {
  const double parts = settings.complex_taps() ? 4.0 : is_complex(settings.input.type) ? 2.0 : 1.0;
  const double outputs = static_cast<double>(settings.rate().most(settings.input.shape.front()));
  const double products = outputs * parts * static_cast<double>(settings.length());
  const correlate_blocks blocks = plan_fir_blocks(settings);
  return settings.input.shape.front() >= settings.length() &&
         products > products_an_operation * (is_complex(settings.output.type) ? 2.0 : 1.0) * blocks.operations;
}

}  // namespace

std::unique_ptr<operation> make_fir_host(const operation_request& request) {
  fir_settings settings = parse_fir(request.settings, request.inputs[0]);
  if (settings.method == sum_method::fft || (settings.method == sum_method::automatic && sum_takes_longer(settings))) {
    return make_fft_fir_host(std::move(settings));
  }
  return std::make_unique<fir_host>(std::move(settings));
}

}  // namespace penstock

#include "kernels/resample.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "kernels/function_attributes.hpp"

namespace penstock {
namespace {

using lanes = float __attribute__((vector_size(32)));
using lanes_anywhere = float __attribute__((vector_size(32), aligned(alignof(float)), may_alias));
constexpr std::int64_t lane_count = sizeof(lanes) / sizeof(float);

/// The taps of each phase that meet one output, oldest step first.
class phase_taps {
 public:
  /// Each tap is there `copies` times.
  phase_taps(std::span<const float> taps, std::int64_t up, std::int64_t copies) {
    const auto count = static_cast<std::int64_t>(taps.size());
    for (std::int64_t phase = 0; phase < up; ++phase) {
      begins_.push_back(static_cast<std::int64_t>(values_.size()));
      const std::int64_t terms = phase < count ? (count - phase + up - 1) / up : 0;
      for (std::int64_t term = terms; term > 0; --term) {
        values_.insert(values_.end(), static_cast<std::size_t>(copies),
                       taps[static_cast<std::size_t>(phase + (term - 1) * up)]);
      }
    }
    begins_.push_back(static_cast<std::int64_t>(values_.size()));
  }

  [[nodiscard]] const float* of(std::int64_t phase) const noexcept { return values_.data() + begin(phase); }
  [[nodiscard]] std::int64_t count(std::int64_t phase) const noexcept { return begin(phase + 1) - begin(phase); }

 private:
  [[nodiscard]] std::int64_t begin(std::int64_t phase) const noexcept {
    return begins_[static_cast<std::size_t>(phase)];
  }

  std::vector<float> values_;
  std::vector<std::int64_t> begins_;
};

/// Outputs of one tile. The tile holds the steps from `first` on, `width` floats each, and a vector's lanes more.
struct resample_run {
  const float* tile;
  std::int64_t first;
  std::int64_t width;
  resample_place place;  ///< of the first output
  std::int64_t up;
  std::int64_t down;
  std::int64_t outputs;
};

/// Calls sum(phase, newest step of the tile, output) for each output.
template <class Sum>
[[gnu::always_inline]] inline void for_each_output(const resample_run& run, const Sum& sum) noexcept {
  const std::int64_t whole = run.down / run.up;
  const std::int64_t rest = run.down % run.up;
  std::int64_t step = run.place.step - run.first;
  std::int64_t phase = run.place.phase;
  for (std::int64_t output = 0; output < run.outputs; ++output) {
    sum(phase, step, output);
    step += whole;
    phase += rest;
    if (phase >= run.up) {
      phase -= run.up;
      ++step;
    }
  }
}

/// One or two floats a step; the taps are there as often.
template <std::int64_t Parts>
[[gnu::always_inline]] inline void sum_along(const float* taps, const float* steps, std::int64_t count,
                                             float* out) noexcept {
  double total[static_cast<std::size_t>(Parts)] = {};
  std::int64_t at = 0;
  const std::int64_t whole = count / lane_count * lane_count;
  while (at < whole) {
    const std::int64_t end = std::min(whole, at + fir_partial * lane_count);
    lanes partial{};
    for (; at < end; at += lane_count) {
      partial +=
          *reinterpret_cast<const lanes_anywhere*>(taps + at) * *reinterpret_cast<const lanes_anywhere*>(steps + at);
    }
    for (std::int64_t lane = 0; lane < lane_count; ++lane) {
      total[lane % Parts] += static_cast<double>(partial[lane]);
    }
  }
  for (; at < count; ++at) {
    total[at % Parts] += static_cast<double>(taps[at] * steps[at]);
  }
  for (std::int64_t part = 0; part < Parts; ++part) {
    out[part] = static_cast<float>(total[part]);
  }
}

PENSTOCK_VECTOR_CLONES void resample_one(const resample_run& run, const phase_taps& taps, float* out) {
  for_each_output(run, [&](std::int64_t phase, std::int64_t step, std::int64_t output) {
    const std::int64_t count = taps.count(phase);
    sum_along<1>(taps.of(phase), run.tile + step + 1 - count, count, out + output);
  });
}

PENSTOCK_VECTOR_CLONES void resample_two(const resample_run& run, const phase_taps& taps, float* out) {
  for_each_output(run, [&](std::int64_t phase, std::int64_t step, std::int64_t output) {
    const std::int64_t count = taps.count(phase);
    sum_along<2>(taps.of(phase), run.tile + 2 * (step + 1) - count, count, out + 2 * output);
  });
}

/// Channels side by side.
PENSTOCK_VECTOR_CLONES void resample_many(const resample_run& run, const phase_taps& taps, float* out) {
  for_each_output(run, [&](std::int64_t phase, std::int64_t step, std::int64_t output) {
    const std::int64_t count = taps.count(phase);
    const float* const values = taps.of(phase);
    const float* const oldest = run.tile + (step + 1 - count) * run.width;
    for (std::int64_t channel = 0; channel < run.width; channel += lane_count) {
      double total[lane_count] = {};
      for (std::int64_t tap = 0; tap < count;) {
        const std::int64_t end = std::min(count, tap + fir_partial);
        lanes partial{};
        for (; tap < end; ++tap) {
          partial += values[tap] * *reinterpret_cast<const lanes_anywhere*>(oldest + tap * run.width + channel);
        }
        for (std::int64_t lane = 0; lane < lane_count; ++lane) {
          total[lane] += static_cast<double>(partial[lane]);
        }
      }
      for (std::int64_t lane = 0; lane < std::min(lane_count, run.width - channel); ++lane) {
        out[output * run.width + channel + lane] = static_cast<float>(total[lane]);
      }
    }
  });
}

/// A frame is resampled tile by tile: the steps that some outputs need are copied together, then each output is a
/// product of them with the taps of its phase. With complex taps these are two real products.
class resample_host final : public operation {
 public:
  explicit resample_host(resample_settings settings)
      : settings_{std::move(settings)},
        width_{settings_.channels * (is_complex(settings_.input.type) ? 2 : 1)},
        taps_{settings_.taps, settings_.up, std::min<std::int64_t>(width_, 2) == width_ ? width_ : 1},
        taps_imag_{settings_.taps_imag, settings_.up, std::min<std::int64_t>(width_, 2) == width_ ? width_ : 1},
        tile_{tile_outputs()},
        tile_steps_{(tile_ - 1) * settings_.down / settings_.up + 2 + settings_.phase_taps()} {}

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override {
    const std::int64_t products = settings_.complex_taps() ? 2 * tile_ * width_ : 0;
    return static_cast<std::size_t>(tile_steps_ * width_ + lane_count + products) * sizeof(float);
  }
  [[nodiscard]] std::size_t state_bytes() const noexcept override { return settings_.state_bytes(); }

  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    const batch_extent& extent = arguments.extent;
    const session_history<float> history{
        .input = static_cast<const float*>(arguments.inputs[0]),
        .session = arguments.session,
        .pitch = settings_.input.elements(extent.leading) / settings_.channels * width_,
        .channels = width_,
        .length = settings_.kept,
    };
    const std::int64_t out_width = settings_.channels * (is_complex(settings_.output.type) ? 2 : 1);
    const std::int64_t leading = settings_.rate().most(extent.leading);
    const std::int64_t out_pitch = settings_.output.elements(leading) / settings_.channels * out_width;
    auto* const tile = static_cast<float*>(arguments.scratch);
    auto* out = static_cast<float*>(arguments.output);
    for (std::int32_t index = 0; index < extent.frames; ++index, out += out_pitch) {
      const session_frame& frame = arguments.session.frames[index];
      for (std::int64_t done = 0; done < frame.produced; done += tile_) {
        resample(history, index, done, std::min<std::int64_t>(tile_, frame.produced - done), tile,
                 out + done * out_width);
      }
    }
    keep_steps(history, extent.frames);
    return {};
  }

 private:
  /// Enough to fill the L1 or L2 cache, and with no fewer steps than lie before a tile.
  [[nodiscard]] std::int64_t tile_outputs() const noexcept {
    const std::int64_t steps = std::max<std::int64_t>(8192 / width_, settings_.phase_taps());
    return std::clamp<std::int64_t>(steps * settings_.up / settings_.down, 1,
                                    std::min<std::int64_t>(settings_.output.shape.front(), 65536));
  }

  void resample(const session_history<float>& history, std::int32_t index, std::int64_t done, std::int64_t outputs,
                float* tile, float* out) const noexcept {
    const std::int64_t position = history.session.frames[index].position;
    const std::int64_t up = settings_.up;
    const std::int64_t down = settings_.down;
    const resample_begin begin = resample_begin_of(position, up, down);
    const resample_place place = begin.place(done, up, down);
    const std::int64_t last = begin.place(done + outputs - 1, up, down).step;
    const std::int64_t first = place.step - (settings_.phase_taps() - 1);
    copy_steps(history, index, first, last + 1 - first, tile);
    const resample_run run{tile, first, width_, place, up, down, outputs};
    const auto each = width_ == 1 ? resample_one : width_ == 2 ? resample_two : resample_many;
    if (!settings_.complex_taps()) {
      each(run, taps_, out);
      return;
    }
    float* const by_real = tile + tile_steps_ * width_ + lane_count;
    float* const by_imag = by_real + outputs * width_;
    each(run, taps_, by_real);
    each(run, taps_imag_, by_imag);
    if (is_complex(settings_.input.type)) {
      for (std::int64_t at = 0; at < outputs * width_; at += 2) {
        out[at] = by_real[at] - by_imag[at + 1];
        out[at + 1] = by_real[at + 1] + by_imag[at];
      }
    } else {
      for (std::int64_t at = 0; at < outputs * width_; ++at) {
        out[2 * at] = by_real[at];
        out[2 * at + 1] = by_imag[at];
      }
    }
  }

  const resample_settings settings_;
  const std::int64_t width_;  ///< floats of a step of the input
  const phase_taps taps_;
  const phase_taps taps_imag_;
  const std::int64_t tile_;        ///< outputs of a tile, at most
  const std::int64_t tile_steps_;  ///< that they need, at most
};

}  // namespace

std::unique_ptr<operation> make_resample_host(const operation_request& request) {
  return std::make_unique<resample_host>(parse_resample(request.settings, request.inputs[0]));
}

}  // namespace penstock

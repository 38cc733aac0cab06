#include "kernels/moving_zscore.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/function_attributes.hpp"
#include "kernels/sliding_window_host.hpp"

namespace penstock {
namespace {

template <int Lanes>
using lane_values = std::array<double, static_cast<std::size_t>(Lanes)>;

/// Mean and sum of squared differences to it, of each lane.
template <int Lanes>
struct lane_moments {
  lane_values<Lanes> mean{};
  lane_values<Lanes> squares{};

  /// `weight` is 1 / (steps, with this one).
  [[gnu::always_inline]] void take(const float* step, double weight) noexcept {
#pragma omp simd
    for (std::size_t lane = 0; lane < Lanes; ++lane) {
      const double difference = static_cast<double>(step[lane]) - mean[lane];
      mean[lane] += difference * weight;
      squares[lane] += difference * (static_cast<double>(step[lane]) - mean[lane]);
    }
  }
  [[gnu::always_inline]] void leave(double* means, double* sums) const noexcept {
#pragma omp simd
    for (std::size_t lane = 0; lane < Lanes; ++lane) {
      means[lane] = mean[lane];
      sums[lane] = squares[lane];
    }
  }
};

/// Two passes over steps that stay in the window throughout a stretch.
template <int Lanes>
[[gnu::always_inline]] inline lane_moments<Lanes> moments_of(const float* line, std::int64_t steps) noexcept {
  lane_moments<Lanes> whole;
  if (steps == 0) {
    return whole;
  }
  if constexpr (Lanes == 1) {
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t step = 0; step < steps; ++step) {
      sum += static_cast<double>(line[step]);
    }
    const double mean = sum / static_cast<double>(steps);
    double squares = 0.0;
#pragma omp simd reduction(+ : squares)
    for (std::int64_t step = 0; step < steps; ++step) {
      const double difference = static_cast<double>(line[step]) - mean;
      squares += difference * difference;
    }
    whole.mean[0] = mean;
    whole.squares[0] = squares;
  } else {
    lane_values<Lanes> sum{};
    for (std::int64_t step = 0; step < steps; ++step) {
#pragma omp simd
      for (std::size_t lane = 0; lane < Lanes; ++lane) {
        sum[lane] += static_cast<double>(line[step * Lanes + static_cast<std::int64_t>(lane)]);
      }
    }
    for (std::size_t lane = 0; lane < Lanes; ++lane) {
      whole.mean[lane] = sum[lane] / static_cast<double>(steps);
    }
    lane_values<Lanes> squares{};
    for (std::int64_t step = 0; step < steps; ++step) {
#pragma omp simd
      for (std::size_t lane = 0; lane < Lanes; ++lane) {
        const double difference =
            static_cast<double>(line[step * Lanes + static_cast<std::int64_t>(lane)]) - whole.mean[lane];
        squares[lane] += difference * difference;
      }
    }
    whole.squares = squares;
  }
  return whole;
}

/// The moments of both parts of the windows of a stretch: `end` of the older, `start` of the newer, steps × lanes each.
struct window_parts {
  double* end_mean;
  double* end_squares;
  double* start_mean;
  double* start_squares;
};

template <int Lanes>
[[gnu::always_inline]] inline void gather_parts(const sliding_stretch& stretch, std::int64_t window,
                                                const window_parts& into) noexcept {
  auto end = moments_of<Lanes>(stretch.line + stretch.steps * Lanes, window - stretch.steps);
  lane_moments<Lanes> start;
  for (std::int64_t step = 0; step < stretch.steps; ++step) {
    const std::int64_t older = stretch.steps - 1 - step;
    end.take(stretch.line + older * Lanes, 1.0 / static_cast<double>(window - older));
    end.leave(into.end_mean + older * Lanes, into.end_squares + older * Lanes);
    start.leave(into.start_mean + step * Lanes, into.start_squares + step * Lanes);
    start.take(stretch.line + (window + step) * Lanes, 1.0 / static_cast<double>(step + 1));
  }
}

/// Joins the parts; a NaN or an infinity in either has made its squares NaN, and so makes the score.
template <int Lanes>
[[gnu::always_inline]] inline void score(const sliding_stretch& stretch, std::int64_t window,
                                         const deviation_floor& floor, const window_parts& parts) noexcept {
  const double whole = static_cast<double>(window);
  const double inverse = 1.0 / whole;
  const float* const current = stretch.line + window * Lanes;
  const auto count = static_cast<std::int32_t>(stretch.steps * Lanes);
#pragma omp simd
  for (std::int32_t i = 0; i < count; ++i) {
    const double newer = static_cast<double>(i / Lanes);
    const double share = newer * inverse;
    const double difference = parts.start_mean[i] - parts.end_mean[i];
    const double mean = parts.end_mean[i] + difference * share;
    const double squares =
        parts.end_squares[i] + parts.start_squares[i] + difference * difference * share * (whole - newer);
    const double deviation = std::sqrt(squares * inverse);
    const auto sample = static_cast<double>(current[i]);
    stretch.results[i] = static_cast<float>((sample - mean) / floor.applied(deviation, mean, sample));
  }
}

template <int Lanes>
[[gnu::always_inline]] inline void score_stretch(const sliding_stretch& stretch, std::int64_t window,
                                                 const deviation_floor& floor) noexcept {
  const std::int64_t values = stretch.steps * Lanes;
  const window_parts parts{stretch.scratch, stretch.scratch + values, stretch.scratch + 2 * values,
                           stretch.scratch + 3 * values};
  gather_parts<Lanes>(stretch, window, parts);
  score<Lanes>(stretch, window, floor, parts);
}

PENSTOCK_VECTOR_CLONES void score_line(const sliding_stretch& stretch, std::int64_t window,
                                       const deviation_floor& floor) {
  score_stretch<1>(stretch, window, floor);
}
PENSTOCK_VECTOR_CLONES void score_lanes(const sliding_stretch& stretch, std::int64_t window,
                                        const deviation_floor& floor) {
  score_stretch<sliding_lanes>(stretch, window, floor);
}

struct zscore_fold {
  static constexpr float absent = 0.0F;
  static constexpr std::size_t scratch = 4;

  deviation_floor floor;

  void operator()(const sliding_stretch& stretch, std::int64_t window, std::int64_t lanes) const noexcept {
    (lanes == 1 ? score_line : score_lanes)(stretch, window, floor);
    const std::int64_t early = std::clamp<std::int64_t>(window - stretch.position, 0, stretch.steps);
    std::fill_n(stretch.results, early * lanes, 0.0F);
  }
};

struct store_scores {
  void set(double /*threshold*/) noexcept {}
  void operator()(void* output, std::int64_t index, const float* scores, std::int64_t count) const noexcept {
    std::copy_n(scores, count, static_cast<float*>(output) + index);
  }
};

struct store_flags {
  double threshold;

  void set(double level) noexcept { threshold = level; }
  void operator()(void* output, std::int64_t index, const float* scores, std::int64_t count) const noexcept {
    auto* const flags = static_cast<std::uint8_t*>(output) + index;
    for (std::int64_t i = 0; i < count; ++i) {
      flags[i] = std::abs(static_cast<double>(scores[i])) > threshold ? 1 : 0;
    }
  }
};

template <class Store>
class moving_zscore_host final : public operation {
 public:
  moving_zscore_host(const moving_zscore_settings& settings, Store store)
      : sliding_{settings.window, zscore_fold{settings.floor}, store} {}

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override { return sliding_.scratch_bytes(); }
  [[nodiscard]] std::size_t state_bytes() const noexcept override { return sliding_.state_bytes(); }

  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    sliding_.run(arguments);
    return {};
  }

 private:
  const sliding_window_host<zscore_fold, Store> sliding_;
};

/// Flags by a threshold of each frame, from scores in scratch.
class tuned_flags_host final : public operation {
 public:
  explicit tuned_flags_host(const moving_zscore_settings& settings, std::int64_t max_frames)
      : settings_{settings},
        score_bytes_{static_cast<std::size_t>(max_frames * settings.output.elements()) * sizeof(float)},
        sliding_{settings.window, zscore_fold{settings.floor}, store_scores{}} {}

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override { return sliding_.scratch_bytes() + score_bytes_; }
  [[nodiscard]] std::size_t state_bytes() const noexcept override { return sliding_.state_bytes(); }

  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    auto* const scores =
        reinterpret_cast<float*>(static_cast<std::byte*>(arguments.scratch) + sliding_.scratch_bytes());
    operation_arguments scoring = arguments;
    scoring.output = scores;
    sliding_.run(scoring);
    const std::int64_t pitch = settings_.window.input.elements(arguments.extent.leading);
    for (std::int64_t frame = 0; frame < arguments.extent.frames; ++frame) {
      const std::int64_t count = arguments.session.frames[frame].steps * settings_.window.channels();
      store_flags{settings_.levels(arguments.numbers + frame * settings_.numbers()).threshold}(
          arguments.output, frame * pitch, scores + frame * pitch, count);
    }
    return {};
  }

 private:
  const moving_zscore_settings settings_;
  const std::size_t score_bytes_;
  const sliding_window_host<zscore_fold, store_scores> sliding_;
};

/// Step by step, channel by channel, in the half of the state for the next batch.
template <class Store>
class held_zscore_host final : public operation {
 public:
  held_zscore_host(moving_zscore_settings settings, Store store) : settings_{std::move(settings)}, store_{store} {}

  [[nodiscard]] std::size_t state_bytes() const noexcept override { return settings_.state_bytes(); }

  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    for (std::int32_t index = 0; index < arguments.extent.frames; ++index) {
      if (arguments.session.frames[index].previous < 0) {
        for (std::int64_t channel = 0; channel < settings_.window.channels(); ++channel) {
          score_channel(arguments, index, channel);
        }
      }
    }
    return {};
  }

 private:
  /// For the session whose first frame in this batch is given.
  void score_channel(const operation_arguments& arguments, std::int32_t index, std::int64_t channel) const noexcept {
    const held_window::extent extent = settings_.extent();
    const session_frame* frame = &arguments.session.frames[index];
    const auto half = [&](std::int32_t which) {
      return held_window{reinterpret_cast<std::uint32_t*>(arguments.session.half(frame->place, which)), extent,
                         channel};
    };
    held_window window = half(1 - frame->half);
    window.copy(half(frame->half), frame->position, 0, 1);
    window_sums sums = taken(window);
    const std::int64_t pitch = settings_.window.input.elements(arguments.extent.leading);
    zscore_levels levels{settings_.hold, settings_.threshold};
    Store store = store_;
    for (; index >= 0; index = frame->next) {
      frame = &arguments.session.frames[index];
      if (arguments.numbers != nullptr) {
        levels = settings_.levels(arguments.numbers + index * settings_.numbers());
        store.set(levels.threshold);
      }
      for (std::int64_t step = 0; step < frame->steps; ++step) {
        const std::int64_t at = index * pitch + step * extent.channels + channel;
        const float value = static_cast<const float*>(arguments.inputs[0])[at];
        bool worn = false;
        const float z = score_step(window, sums, value, frame->position + step, settings_.floor, levels.hold,
                                   settings_.on_nan, worn);
        store(arguments.output, at, &z, 1);
        if (worn) {
          sums = taken(window);
        }
      }
    }
    window.leave();
  }

  [[nodiscard]] static window_sums taken(const held_window& window) noexcept {
    window_sums first;
    for (std::int32_t at = 0; at < window.filled(); ++at) {
      first.add(window.value(at), 1.0);
    }
    window_sums second{.pivot = first.count == 0 ? 0.0 : first.mean(1.0 / static_cast<double>(first.count))};
    for (std::int32_t at = 0; at < window.filled(); ++at) {
      second.add(window.value(at), 1.0);
    }
    return second;
  }

  const moving_zscore_settings settings_;
  const Store store_;
};

template <class Store>
std::unique_ptr<operation> make_with(const moving_zscore_settings& settings, Store store) {
  if (settings.held()) {
    return std::make_unique<held_zscore_host<Store>>(settings, store);
  }
  return std::make_unique<moving_zscore_host<Store>>(settings, store);
}

}  // namespace

std::unique_ptr<operation> make_moving_zscore_host(const operation_request& request) {
  const moving_zscore_settings settings = parse_moving_zscore(request.settings, request.inputs[0]);
  if (settings.flags && request.tuned && !settings.held()) {
    return std::make_unique<tuned_flags_host>(settings, request.max_frames);
  }
  if (settings.flags) {
    return make_with(settings, store_flags{settings.threshold});
  }
  return make_with(settings, store_scores{});
}

}  // namespace penstock

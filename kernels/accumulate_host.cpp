#include "kernels/accumulate.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "kernels/function_attributes.hpp"
#include "kernels/sliding_window_host.hpp"

namespace penstock {
namespace {

struct add_up {
  static constexpr float absent = 0.0F;
  using partial = double;  ///< what values are joined in before they join a total

  static double joined(double a, double b) noexcept { return a + b; }
  static double result(double total, std::int32_t count) noexcept { return total / static_cast<double>(count); }
};

/// A NaN on either side stays.
struct take_larger {
  static constexpr float absent = -std::numeric_limits<float>::infinity();
  using partial = float;  ///< exact, and twice as many at once

  template <class Number>
  static Number joined(Number a, Number b) noexcept {
    const Number larger = a > b ? a : b;
    return std::isnan(a) ? a : larger;
  }
  static double result(double total, std::int32_t /*count*/) noexcept { return total; }
};

/// Steps of the session in the window at this step of a stretch.
[[gnu::always_inline]] inline std::int32_t steps_held(const sliding_stretch& stretch, std::int64_t window,
                                                      std::int32_t step) noexcept {
  const auto before = static_cast<std::int32_t>(std::min(stretch.position, window));
  return std::min(static_cast<std::int32_t>(window), before + step + 1);
}

/// Parts of a stretch that are folded side by side, since each step of a part depends on the one before it.
constexpr std::int64_t pieces = 4;

template <class Join>
[[gnu::always_inline]] inline double fold_values(const float* values, std::int64_t count) noexcept {
  double total[pieces];
  std::fill_n(total, pieces, static_cast<double>(Join::absent));
  for (; count >= pieces; count -= pieces, values += pieces) {
    for (std::int64_t piece = 0; piece < pieces; ++piece) {
      total[piece] = Join::joined(total[piece], static_cast<double>(values[piece]));
    }
  }
  double all = Join::joined(Join::joined(total[0], total[1]), Join::joined(total[2], total[3]));
  for (; count > 0; --count, ++values) {
    all = Join::joined(all, static_cast<double>(*values));
  }
  return all;
}

/// Totals of the pieces, and of the steps left over after them.
struct piece_folds {
  double older[pieces + 1];
  double newer[pieces + 1];
};

/// For each step, the total of its piece from the step on (older part) and before the step (newer part). Also reads
/// next[steps - 1], whose value is not used.
template <class Join>
[[gnu::always_inline]] inline void fold_pieces(const float* line, const float* next, std::int64_t steps, double* older,
                                               double* newer, piece_folds& all) noexcept {
  std::fill_n(all.older, pieces + 1, static_cast<double>(Join::absent));
  std::fill_n(all.newer, pieces + 1, static_cast<double>(Join::absent));
  const auto take = [&](std::int64_t piece, std::int64_t back, std::int64_t place) {
    all.older[piece] = Join::joined(all.older[piece], static_cast<double>(line[back]));
    older[back] = all.older[piece];
    newer[place] = all.newer[piece];
    all.newer[piece] = Join::joined(all.newer[piece], static_cast<double>(next[place]));
  };
  const std::int64_t length = steps / pieces;
  for (std::int64_t i = 0; i < length; ++i) {
    for (std::int64_t piece = 0; piece < pieces; ++piece) {
      take(piece, (piece + 1) * length - 1 - i, piece * length + i);
    }
  }
  const std::int64_t rest = pieces * length;
  for (std::int64_t i = rest; i < steps; ++i) {
    take(pieces, steps - 1 - (i - rest), i);
  }
}

/// Turns totals of pieces into totals of all later pieces (older part) or earlier pieces (newer part).
template <class Join>
[[gnu::always_inline]] inline void fold_neighbours(double behind, piece_folds& all) noexcept {
  auto before = static_cast<double>(Join::absent);
  for (std::int64_t piece = 0; piece <= pieces; ++piece) {
    behind = Join::joined(behind, std::exchange(all.older[pieces - piece], behind));
    before = Join::joined(before, std::exchange(all.newer[piece], before));
  }
}

template <class Join>
[[gnu::always_inline]] inline void fold_line(const sliding_stretch& stretch, std::int64_t window) noexcept {
  double* const older = stretch.scratch;
  double* const newer = stretch.scratch + stretch.steps;
  piece_folds all;
  fold_pieces<Join>(stretch.line, stretch.line + window, stretch.steps, older, newer, all);
  fold_neighbours<Join>(fold_values<Join>(stretch.line + stretch.steps, window - stretch.steps), all);
  const auto length = static_cast<std::int32_t>(stretch.steps / pieces);
  for (std::int64_t piece = 0; piece <= pieces; ++piece) {
    const std::int32_t begin = static_cast<std::int32_t>(piece) * length;
    const std::int32_t end = piece == pieces ? static_cast<std::int32_t>(stretch.steps) : begin + length;
    const double behind = all.older[piece];
    const double before = all.newer[piece];
#pragma omp simd
    for (std::int32_t step = begin; step < end; ++step) {
      const double total = Join::joined(Join::joined(older[step], behind), Join::joined(newer[step], before));
      stretch.results[step] = static_cast<float>(Join::result(total, steps_held(stretch, window, step)));
    }
  }
}

/// `totals` holds the older part of each window; the newer part grows along with the results.
template <class Join, int Lanes>
[[gnu::always_inline]] inline void fold_stretch(const sliding_stretch& stretch, std::int64_t window) noexcept {
  constexpr auto lanes = static_cast<std::size_t>(Lanes);
  std::array<double, lanes> total;
  total.fill(static_cast<double>(Join::absent));
  for (std::int64_t step = window - 1; step >= 0; --step) {
#pragma omp simd
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      total[lane] = Join::joined(total[lane], static_cast<double>(stretch.line[step * Lanes + static_cast<int>(lane)]));
    }
    if (step < stretch.steps) {
      std::copy_n(total.data(), lanes, stretch.scratch + step * Lanes);
    }
  }
  total.fill(static_cast<double>(Join::absent));
  for (std::int64_t step = 0; step < stretch.steps; ++step) {
    const std::int32_t count = steps_held(stretch, window, static_cast<std::int32_t>(step));
#pragma omp simd
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      const std::int64_t place = step * Lanes + static_cast<int>(lane);
      stretch.results[place] =
          static_cast<float>(Join::result(Join::joined(stretch.scratch[place], total[lane]), count));
    }
    if (step + 1 < stretch.steps) {
      const float* const newer = stretch.line + (window + step) * Lanes;
#pragma omp simd
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        total[lane] = Join::joined(total[lane], static_cast<double>(newer[lane]));
      }
    }
  }
}

PENSTOCK_VECTOR_CLONES void mean_line(const sliding_stretch& stretch, std::int64_t window) {
  fold_line<add_up>(stretch, window);
}
PENSTOCK_VECTOR_CLONES void mean_lanes(const sliding_stretch& stretch, std::int64_t window) {
  fold_stretch<add_up, sliding_lanes>(stretch, window);
}
PENSTOCK_VECTOR_CLONES void peak_line(const sliding_stretch& stretch, std::int64_t window) {
  fold_line<take_larger>(stretch, window);
}
PENSTOCK_VECTOR_CLONES void peak_lanes(const sliding_stretch& stretch, std::int64_t window) {
  fold_stretch<take_larger, sliding_lanes>(stretch, window);
}

/// Adds steps × channels values to the totals of the channels.
template <class Join>
[[gnu::always_inline]] inline void fold_steps(const float* values, std::int64_t steps, std::int64_t channels,
                                              double* totals) noexcept {
  using partial = typename Join::partial;
  for (; steps >= 4; steps -= 4, values += 4 * channels) {
    const float* const second = values + channels;
    const float* const third = second + channels;
    const float* const fourth = third + channels;
#pragma omp simd
    for (std::int64_t channel = 0; channel < channels; ++channel) {
      const auto one = Join::joined(static_cast<partial>(values[channel]), static_cast<partial>(second[channel]));
      const auto two = Join::joined(static_cast<partial>(third[channel]), static_cast<partial>(fourth[channel]));
      totals[channel] = Join::joined(totals[channel], static_cast<double>(Join::joined(one, two)));
    }
  }
  for (; steps > 0; --steps, values += channels) {
#pragma omp simd
    for (std::int64_t channel = 0; channel < channels; ++channel) {
      totals[channel] = Join::joined(totals[channel], static_cast<double>(values[channel]));
    }
  }
}

/// The same of one channel.
template <class Join>
[[gnu::always_inline]] inline void fold_row(const float* values, std::int64_t steps, double* total) noexcept {
  using partial = typename Join::partial;
  constexpr std::int64_t lanes = sizeof(partial) == sizeof(float) ? 32 : 16;
  partial lane_totals[static_cast<std::size_t>(lanes)];
  std::fill_n(lane_totals, lanes, static_cast<partial>(Join::absent));
  for (; steps >= lanes; steps -= lanes, values += lanes) {
#pragma omp simd
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      lane_totals[lane] = Join::joined(lane_totals[lane], static_cast<partial>(values[lane]));
    }
  }
  for (std::int64_t half = lanes / 2; half > 0; half /= 2) {
    for (std::int64_t lane = 0; lane < half; ++lane) {
      lane_totals[lane] = Join::joined(lane_totals[lane], lane_totals[lane + half]);
    }
  }
  *total = Join::joined(*total, static_cast<double>(lane_totals[0]));
  for (; steps > 0; --steps, ++values) {
    *total = Join::joined(*total, static_cast<double>(*values));
  }
}

PENSTOCK_VECTOR_CLONES void add_steps(const float* values, std::int64_t steps, std::int64_t channels, double* totals) {
  channels == 1 ? fold_row<add_up>(values, steps, totals) : fold_steps<add_up>(values, steps, channels, totals);
}
PENSTOCK_VECTOR_CLONES void raise_steps(const float* values, std::int64_t steps, std::int64_t channels,
                                        double* totals) {
  channels == 1 ? fold_row<take_larger>(values, steps, totals)
                : fold_steps<take_larger>(values, steps, channels, totals);
}

struct mean_fold {
  using join = add_up;
  static constexpr float absent = add_up::absent;
  static constexpr std::size_t scratch = 2;

  void operator()(const sliding_stretch& stretch, std::int64_t window, std::int64_t lanes) const noexcept {
    (lanes == 1 ? mean_line : mean_lanes)(stretch, window);
  }
  static void fold(const float* values, std::int64_t steps, std::int64_t channels, double* totals) noexcept {
    add_steps(values, steps, channels, totals);
  }
};

struct peak_fold {
  using join = take_larger;
  static constexpr float absent = take_larger::absent;
  static constexpr std::size_t scratch = 2;

  void operator()(const sliding_stretch& stretch, std::int64_t window, std::int64_t lanes) const noexcept {
    (lanes == 1 ? peak_line : peak_lanes)(stretch, window);
  }
  static void fold(const float* values, std::int64_t steps, std::int64_t channels, double* totals) noexcept {
    raise_steps(values, steps, channels, totals);
  }
};

struct store_results {
  void operator()(void* output, std::int64_t index, const float* results, std::int64_t count) const noexcept {
    std::copy_n(results, count, static_cast<float*>(output) + index);
  }
};

template <class Fold>
class accumulate_host final : public operation {
 public:
  accumulate_host(const accumulate_settings& settings, std::int64_t max_frames)
      : sliding_{settings.window, {}, {}}, settings_{settings}, max_frames_{max_frames} {}

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override {
    const auto channels = static_cast<std::size_t>(settings_.window.channels());
    const std::size_t of_valid = channels * (sizeof(double) + sizeof(valid_steps));
    if (settings_.picks()) {
      return std::max(all_bytes() + sliding_.scratch_bytes(), of_valid);
    }
    return std::max(settings_.every == 1 ? sliding_.scratch_bytes() : std::size_t{0}, of_valid);
  }
  [[nodiscard]] std::size_t state_bytes() const noexcept override { return sliding_.state_bytes(); }

  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    if (settings_.on_nan != invalid_samples::spread && has_invalid(arguments)) {
      fold_valid(arguments);
    } else if (settings_.every == 1) {
      sliding_.run(arguments);
    } else if (settings_.picks()) {
      operation_arguments all = arguments;
      all.output = arguments.scratch;
      all.scratch = static_cast<std::byte*>(arguments.scratch) + all_bytes();
      sliding_.run(all);
      pick(arguments);
    } else {
      fold_windows(arguments);
    }
    return {};
  }

 private:
  /// Of the window of a channel, while it is gone through from its end.
  struct valid_steps {
    std::int32_t count;
    bool ended;  ///< by an invalid step, before which nothing belongs to it
  };

  /// Of the results of each step, a multiple of 64.
  [[nodiscard]] std::size_t all_bytes() const noexcept {
    constexpr std::size_t line = 64;
    return (static_cast<std::size_t>(max_frames_) * settings_.window.input.bytes() + line - 1) / line * line;
  }

  /// Calls each(frame, step, output): `step` of the frame has a result, whose place in the output is `output`.
  template <class Each>
  void visit_results(const operation_arguments& arguments, const Each& each) const noexcept {
    const batch_extent& extent = arguments.extent;
    const std::int64_t pitch = settings_.output.elements(settings_.rate().most(extent.leading));
    for (std::int32_t frame = 0; frame < extent.frames; ++frame) {
      const session_frame& entry = arguments.session.frames[frame];
      float* out = static_cast<float*>(arguments.output) + frame * pitch;
      std::int64_t step = settings_.every - 1 - entry.position % settings_.every;
      for (std::int32_t made = 0; made < entry.produced; ++made, step += settings_.every) {
        each(frame, step, out);
        out += settings_.window.channels();
      }
    }
  }

  void pick(const operation_arguments& arguments) const noexcept {
    const session_history<float> history = settings_.window.history(arguments);
    const auto* const all = static_cast<const float*>(arguments.scratch);
    visit_results(arguments, [&](std::int32_t frame, std::int64_t step, float* out) {
      std::copy_n(all + frame * history.pitch + step * history.channels, history.channels, out);
    });
  }

  void fold_windows(const operation_arguments& arguments) const noexcept {
    const session_history<float> history = settings_.window.history(arguments);
    const std::int64_t channels = history.channels;
    auto* const totals = static_cast<double*>(arguments.scratch);
    visit_results(arguments, [&](std::int32_t frame, std::int64_t step, float* out) {
      const std::int64_t before = arguments.session.frames[frame].position + step + 1;
      const std::int64_t held = std::min(before, settings_.window.length);
      std::fill_n(totals, channels, static_cast<double>(Fold::absent));
      visit_runs(history, frame, step + 1 - held, held,
                 [&](const float* values, std::int64_t /*offset*/, std::int64_t steps) {
                   if (values != nullptr) {
                     Fold::fold(values, steps, channels, totals);
                   }
                 });
      for (std::int64_t channel = 0; channel < channels; ++channel) {
        out[channel] = static_cast<float>(Fold::join::result(totals[channel], static_cast<std::int32_t>(held)));
      }
    });
    keep_steps(history, arguments.extent.frames);
  }

  /// Whether any window of the batch may hold an invalid step.
  [[nodiscard]] bool has_invalid(const operation_arguments& arguments) const noexcept {
    const session_history<float> history = settings_.window.history(arguments);
    for (std::int32_t index = 0; index < arguments.extent.frames; ++index) {
      const session_frame& frame = arguments.session.frames[index];
      bool any = any_invalid(history.input + index * history.pitch, frame.steps * history.channels);
      if (frame.previous < 0) {
        const std::int64_t kept = std::min(history.length, frame.position);
        visit_runs(history, index, -kept, kept, [&](const float* values, std::int64_t /*offset*/, std::int64_t steps) {
          any = any || (values != nullptr && any_invalid(values, steps * history.channels));
        });
      }
      if (any) {
        return true;
      }
    }
    return false;
  }

  /// The runs of a window come from its end.
  void fold_valid(const operation_arguments& arguments) const noexcept {
    const session_history<float> history = settings_.window.history(arguments);
    const std::int64_t channels = history.channels;
    const bool reset = settings_.on_nan == invalid_samples::reset;
    auto* const totals = static_cast<double*>(arguments.scratch);
    auto* const valid = reinterpret_cast<valid_steps*>(totals + channels);
    visit_results(arguments, [&](std::int32_t frame, std::int64_t step, float* out) {
      const std::int64_t before = arguments.session.frames[frame].position + step + 1;
      const std::int64_t held = std::min(before, settings_.window.length);
      std::fill_n(totals, channels, static_cast<double>(Fold::absent));
      std::fill_n(valid, channels, valid_steps{0, false});
      visit_runs(history, frame, step + 1 - held, held,
                 [&](const float* values, std::int64_t /*offset*/, std::int64_t steps) {
                   for (std::int64_t at = values == nullptr ? 0 : steps * channels; at > 0;) {
                     at -= channels;
                     for (std::int64_t channel = 0; channel < channels; ++channel) {
                       const float value = values[at + channel];
                       if (!is_valid(value)) {
                         valid[channel].ended = valid[channel].ended || reset;
                       } else if (!valid[channel].ended) {
                         totals[channel] = Fold::join::joined(totals[channel], static_cast<double>(value));
                         ++valid[channel].count;
                       }
                     }
                   }
                 });
      for (std::int64_t channel = 0; channel < channels; ++channel) {
        const std::int32_t count = valid[channel].count;
        out[channel] = count == 0 ? std::numeric_limits<float>::quiet_NaN()
                                  : static_cast<float>(Fold::join::result(totals[channel], count));
      }
    });
    keep_steps(history, arguments.extent.frames);
  }

  const sliding_window_host<Fold, store_results> sliding_;
  const accumulate_settings settings_;
  const std::int64_t max_frames_;
};

}  // namespace

std::unique_ptr<operation> make_accumulate_host(const operation_request& request) {
  const accumulate_settings settings = parse_accumulate(request.settings, request.inputs[0]);
  if (settings.peak) {
    return std::make_unique<accumulate_host<peak_fold>>(settings, request.max_frames);
  }
  return std::make_unique<accumulate_host<mean_fold>>(settings, request.max_frames);
}

}  // namespace penstock

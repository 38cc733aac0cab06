#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/session.hpp"
#include "kernels/sliding_window.hpp"

namespace penstock {

/// Channels that are folded side by side. A single channel has a faster path along the steps.
inline constexpr std::int64_t sliding_lanes = 8;

/// One stretch of steps, laid out for the fold: `line` holds steps × lanes, the oldest first.
struct sliding_stretch {
  const float* line;      ///< step k of the stretch has its window in steps k … k + length − 1 of the line
  std::int64_t steps;     ///< at most the window's length
  std::int64_t position;  ///< of the first, from the session's start
  double* scratch;        ///< Fold::scratch doubles for each step and lane
  float* results;         ///< steps × lanes
};

/// Runs a fold over windows that slide along sessions. `Fold` has
///   absent   the value of a step before the start of the session
///   scratch  doubles that it needs for each step and lane of a stretch
///   void operator()(const sliding_stretch&, std::int64_t window, std::int64_t lanes) const: computes the results of a
///   stretch; lanes is 1 or sliding_lanes. If the window excludes the current step, that step is at k + window of the
///   line.
/// `Store` is called with the output, an index, and contiguous results for it.
template <class Fold, class Store>
class sliding_window_host {
 public:
  sliding_window_host(sliding_window window, Fold fold, Store store) noexcept
      : window_{std::move(window)},
        fold_{fold},
        store_{store},
        lanes_{window_.channels() == 1 ? 1 : sliding_lanes},
        tile_{window_.length >= few_steps ? std::min(window_.length, many_steps)
                                          : few_steps / window_.length * window_.length} {}

  [[nodiscard]] std::size_t state_bytes() const noexcept { return window_.state_bytes(); }
  [[nodiscard]] std::size_t scratch_bytes() const noexcept {
    return static_cast<std::size_t>(lanes_) *
           (scratch_elements() * sizeof(double) + static_cast<std::size_t>(line_steps() + tile_) * sizeof(float));
  }

  void run(const operation_arguments& arguments) const noexcept {
    const session_history<float> history = window_.history(arguments);
    for (std::int64_t frame = 0; frame < arguments.extent.frames; ++frame) {
      if (arguments.session.frames[frame].previous < 0) {
        run_session(arguments, history, static_cast<std::int32_t>(frame));
      }
    }
  }

 private:
  static constexpr std::int64_t few_steps = 1024;
  static constexpr std::int64_t many_steps = 4096;

  [[nodiscard]] std::int64_t line_steps() const noexcept { return window_.length + tile_; }
  [[nodiscard]] std::size_t scratch_elements() const noexcept {
    return Fold::scratch * static_cast<std::size_t>(tile_);
  }

  void run_session(const operation_arguments& arguments, const session_history<float>& history,
                   std::int32_t first) const noexcept {
    std::int64_t steps = 0;
    std::int32_t last = first;
    for (std::int32_t frame = first; frame >= 0; frame = arguments.session.frames[frame].next) {
      steps += arguments.session.frames[frame].steps;
      last = frame;
    }
    for (std::int64_t begin = 0; begin < steps; begin += tile_) {
      for (std::int64_t channel = 0; channel < history.channels; channel += lanes_) {
        run_tile(arguments, history, first, {begin, std::min(tile_, steps - begin)}, channel);
      }
    }
    keep(history, last);
  }

  struct step_range {
    std::int64_t begin;
    std::int64_t count;
  };

  void run_tile(const operation_arguments& arguments, const session_history<float>& history, std::int32_t first,
                const step_range& tile, std::int64_t channel) const noexcept {
    auto* const scratch = static_cast<double*>(arguments.scratch);
    auto* const line = reinterpret_cast<float*>(scratch + scratch_elements() * static_cast<std::size_t>(lanes_));
    float* const results = line + line_steps() * lanes_;
    const std::int64_t lanes = std::min(lanes_, history.channels - channel);
    session_cursor<float> cursor{history, first};
    const std::int64_t current = window_.includes_current ? 1 : 0;
    fill(cursor, history, {tile.begin - window_.length + current, window_.length + tile.count - current}, channel,
         lanes, line);
    const std::int64_t position = arguments.session.frames[first].position + tile.begin;
    for (std::int64_t begin = 0; begin < tile.count; begin += window_.length) {
      fold_({line + begin * lanes_, std::min(window_.length, tile.count - begin), position + begin, scratch,
             results + begin * lanes_},
            window_.length, lanes_);
    }
    for (std::int64_t step = 0; step < tile.count;) {
      const std::int64_t count = cursor.run(tile.begin + step, tile.count - step);
      const std::int64_t place = cursor.index(tile.begin + step) + channel;
      if (lanes_ == history.channels) {
        store_(arguments.output, place, results + step * lanes_, count * lanes_);
      } else {
        for (std::int64_t i = 0; i < count; ++i) {
          store_(arguments.output, place + i * history.channels, results + (step + i) * lanes_, lanes);
        }
      }
      step += count;
    }
  }

  /// Lanes after the last channel get the value of an absent step.
  void fill(session_cursor<float>& cursor, const session_history<float>& history, const step_range& range,
            std::int64_t channel, std::int64_t lanes, float* line) const noexcept {
    for (std::int64_t step = range.begin, end = range.begin + range.count; step < end;) {
      const std::int64_t count = cursor.run(step, end - step);
      const float* source = cursor.at(step);
      step += count;
      if (source == nullptr) {
        line = std::fill_n(line, count * lanes_, Fold::absent);
      } else if (lanes_ == history.channels) {
        line = std::copy_n(source, count * lanes_, line);
      } else {
        source += channel;
        for (std::int64_t i = 0; i < count; ++i, source += history.channels, line += lanes_) {
          std::fill(std::copy_n(source, lanes, line), line + lanes_, Fold::absent);
        }
      }
    }
  }

  static void keep(const session_history<float>& history, std::int32_t last) noexcept {
    const session_frame& entry = history.session.frames[last];
    session_cursor<float> cursor{history, last};
    for (std::int64_t step = -history.length; step < 0;) {
      const std::int64_t count = cursor.run(entry.steps + step, -step);
      const float* const source = cursor.at(entry.steps + step);
      float* const destination = history.kept(entry, step);
      if (source == nullptr) {
        std::fill_n(destination, count * history.channels, 0.0F);
      } else {
        std::copy_n(source, count * history.channels, destination);
      }
      step += count;
    }
  }

  const sliding_window window_;
  const Fold fold_;
  const Store store_;
  const std::int64_t lanes_;
  const std::int64_t tile_;
};

}  // namespace penstock

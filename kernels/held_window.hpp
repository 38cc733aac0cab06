#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "kernels/callable_from_kernels.hpp"

namespace penstock {

/// The least that a deviation counts as: of the window's mean and the sample so large a share, or so much in the
/// input's unit.
struct deviation_floor {
  double least = 1e-300;  ///< not 0: the score of 0 in a window of zeros is 0
  double relative = 1e-6;

  /// Of finite values; a NaN has none, and is what its score is.
  [[nodiscard]] PENSTOCK_HOST_DEVICE double applied(double deviation, double mean, double sample) const noexcept {
    constexpr double most = 3.5e38;  // above f32's range, so that an infinite sample has a finite floor
    const double of_sample = sample < 0.0 ? -sample : sample;
    const double of_mean = mean < 0.0 ? -mean : mean;
    const double larger = of_mean > of_sample ? of_mean : of_sample;
    const double share = relative * (larger < most ? larger : most);
    const double floor = share > least ? share : least;
    return deviation < floor ? floor : deviation;
  }
};

/// Sums over the values of a window that are finite, as differences to a pivot. Taken anew from the values where a
/// value that has left was so large, or lies so far from the mean now, that its rounding would be seen.
struct window_sums {
  double pivot = 0.0;
  double sum = 0.0;
  double squares = 0.0;
  double most_squares = 0.0;  ///< since they were taken
  std::int32_t count = 0;
  std::int32_t broken = 0;  ///< values that are not finite

  PENSTOCK_HOST_DEVICE void add(float value, double sign) noexcept {
    if (!(value - value == 0.0F)) {
      broken += sign > 0.0 ? 1 : -1;
      return;
    }
    const double difference = static_cast<double>(value) - pivot;
    sum += sign * difference;
    squares += sign * difference * difference;
    most_squares = squares > most_squares ? squares : most_squares;
    count += sign > 0.0 ? 1 : -1;
  }
  [[nodiscard]] PENSTOCK_HOST_DEVICE bool worn() const noexcept {
    const double of_mean = sum * sum;  // times the count, as what it is compared with
    return squares < 1e-6 * most_squares || of_mean > 1e4 * (squares * static_cast<double>(count) - of_mean);
  }
  /// `share` is 1 / count.
  [[nodiscard]] PENSTOCK_HOST_DEVICE double mean(double share) const noexcept { return pivot + sum * share; }
  /// Of the population.
  [[nodiscard]] PENSTOCK_HOST_DEVICE double deviation(double share) const noexcept {
    const double offset = sum * share;
    const double variance = squares * share - offset * offset;
    return sqrt(variance < 0.0 ? 0.0 : variance);
  }
};

/// The window of one channel of a session, whose steps come in `gap` steps late, and not at all where a score is above
/// a level (moving_zscore.hpp says when). Its memory is the session's state: as words of four bytes, for each channel
/// how many values the window holds and where the next one goes, then the windows, then the late steps and which of
/// them were above, channels side by side. At the session's first step there is nothing, whatever the memory holds.
class held_window {
 public:
  struct extent {
    std::int32_t window;
    std::int32_t gap;
    std::int64_t channels;
  };

  [[nodiscard]] static PENSTOCK_HOST_DEVICE std::size_t words(const extent& of) noexcept {
    return static_cast<std::size_t>(of.channels) *
           (2 + static_cast<std::size_t>(of.window) + 2 * static_cast<std::size_t>(of.gap));
  }

  PENSTOCK_HOST_DEVICE held_window(std::uint32_t* state, const extent& of, std::int64_t channel) noexcept
      : of_{of},
        share_{1.0 / static_cast<double>(of.window)},
        counts_{reinterpret_cast<std::int32_t*>(state) + channel},
        values_{reinterpret_cast<float*>(state) + 2 * of.channels + channel},
        late_{values_ + of.window * of.channels},
        above_{state + (2 + of.window + of.gap) * of.channels + channel} {}

  [[nodiscard]] PENSTOCK_HOST_DEVICE std::int32_t filled() const noexcept { return filled_; }
  [[nodiscard]] PENSTOCK_HOST_DEVICE float value(std::int32_t at) const noexcept { return values_[at * of_.channels]; }

  /// Takes what the session had before step `position`. Each of `lanes` threads copies its part of the values.
  PENSTOCK_HOST_DEVICE void copy(const held_window& from, std::int64_t position, int lane, int lanes) noexcept {
    filled_ = position > 0 ? from.counts_[0] : 0;
    next_ = position > 0 ? from.counts_[of_.channels] : 0;
    for (std::int32_t at = lane; at < filled_; at += lanes) {
      values_[at * of_.channels] = from.values_[at * of_.channels];
    }
    for (std::int32_t at = lane; at < of_.gap && at < position; at += lanes) {
      late_[at * of_.channels] = from.late_[at * of_.channels];
      above_[at * of_.channels] = from.above_[at * of_.channels];
    }
  }
  /// Leaves the counts beside the values.
  PENSTOCK_HOST_DEVICE void leave() const noexcept {
    counts_[0] = filled_;
    counts_[of_.channels] = next_;
  }

  [[nodiscard]] PENSTOCK_HOST_DEVICE double score(float value, const window_sums& sums,
                                                  const deviation_floor& floor) const noexcept {
    if (filled_ < of_.window) {
      return 0.0;
    }
    const double mean = sums.broken != 0 ? static_cast<double>(NAN) : sums.mean(share_);
    return (static_cast<double>(value) - mean) /
           floor.applied(sums.deviation(share_), mean, static_cast<double>(value));
  }

  /// Behind the score of step `step`. Returns whether the sums are to be taken anew. The lanes of a warp call it
  /// together, with the same; each writes all, and so reads what it has written.
  PENSTOCK_HOST_DEVICE bool take(float value, bool above, std::int64_t step, window_sums& sums) noexcept {
    bool comes = !above;
    float coming = value;
    const std::int64_t slot = of_.gap > 0 ? step % of_.gap * of_.channels : 0;
    if (of_.gap > 0) {
      comes = step >= of_.gap && !above && above_[slot] == 0;
      coming = comes ? late_[slot] : 0.0F;
    }
    const std::int64_t place = next_ * of_.channels;
    const bool full = filled_ == of_.window;
    const float leaving = comes && full ? values_[place] : 0.0F;
#ifdef __CUDA_ARCH__
    __syncwarp();
#endif
    if (of_.gap > 0) {
      late_[slot] = value;
      above_[slot] = above ? 1U : 0U;
    }
    if (!comes) {
      return false;
    }
    values_[place] = coming;
    next_ = next_ + 1 == of_.window ? 0 : next_ + 1;
    if (full) {
      sums.add(leaving, -1.0);
    } else {
      ++filled_;
    }
    sums.add(coming, 1.0);
    return full && sums.worn();
  }

 private:
  extent of_;
  double share_;
  std::int32_t filled_ = 0;
  std::int32_t next_ = 0;  ///< where the next value goes
  std::int32_t* counts_;   ///< of the state: these two
  float* values_;
  float* late_;
  std::uint32_t* above_;
};

}  // namespace penstock

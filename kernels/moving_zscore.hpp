#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/function_attributes.hpp"
#include "kernels/invalid_samples.hpp"
#include "kernels/operation.hpp"
#include "kernels/operator_checks.hpp"
#include "kernels/sliding_window.hpp"

namespace penstock {

/// Minimum deviation: an absolute number in the unit of the input, or a share of the larger of mean and sample.
struct deviation_floor {
  double least = 1e-300;  ///< not 0: the score of 0 in a window of zeros is 0
  double relative = 1e-6;

  /// For finite values. A NaN stays NaN.
  [[nodiscard]] PENSTOCK_HOST_DEVICE double applied(double deviation, double mean, double sample) const noexcept {
    constexpr double most = 3.5e38;  // above f32's range, so that an infinite sample has a finite floor
    const double sample_size = sample < 0.0 ? -sample : sample;
    const double mean_size = mean < 0.0 ? -mean : mean;
    const double larger = mean_size > sample_size ? mean_size : sample_size;
    const double share = relative * (larger < most ? larger : most);
    const double floor = share > least ? share : least;
    return deviation < floor ? floor : deviation;
  }
};

/// Sums over the finite values of a window, as differences to a pivot. They are computed anew when rounding would show:
/// after a very large value has left, or when the pivot is far from the mean.
struct window_sums {
  double pivot = 0.0;
  double sum = 0.0;
  double squares = 0.0;
  double max_squares = 0.0;  ///< since they were taken
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
    max_squares = squares > max_squares ? squares : max_squares;
    count += sign > 0.0 ? 1 : -1;
  }
  [[nodiscard]] PENSTOCK_HOST_DEVICE bool worn() const noexcept {
    const double square_of_sum = sum * sum;  // times the count, as what it is compared with
    return squares < 1e-6 * max_squares || square_of_sum > 1e4 * (squares * static_cast<double>(count) - square_of_sum);
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

/// The window of one channel of a session with `gap`, `hold` or `on_nan` (moving_zscore_settings).
///
/// Its memory is the state of the session, in words of four bytes with channels side by side: for each channel the
/// number of values in the window, the index of the next one and the number of late steps, then the windows, then the
/// late steps and whether they were above the level. At position 0 the state holds nothing, whatever is in memory.
class held_window {
 public:
  struct extent {
    std::int32_t window;
    std::int32_t gap;
    std::int64_t channels;
  };

  [[nodiscard]] static PENSTOCK_HOST_DEVICE std::size_t words(const extent& size) noexcept {
    return static_cast<std::size_t>(size.channels) *
           (3 + static_cast<std::size_t>(size.window) + 2 * static_cast<std::size_t>(size.gap));
  }

  PENSTOCK_HOST_DEVICE held_window(std::uint32_t* state, const extent& size, std::int64_t channel) noexcept
      : extent_{size},
        share_{1.0 / static_cast<double>(size.window)},
        counts_{reinterpret_cast<std::int32_t*>(state) + channel},
        values_{reinterpret_cast<float*>(state) + 3 * size.channels + channel},
        late_{values_ + size.window * size.channels},
        above_{state + (3 + size.window + size.gap) * size.channels + channel} {}

  [[nodiscard]] PENSTOCK_HOST_DEVICE std::int32_t filled() const noexcept { return filled_; }
  [[nodiscard]] PENSTOCK_HOST_DEVICE float value(std::int32_t index) const noexcept {
    return values_[index * extent_.channels];
  }

  /// Takes over the window as it was before step `position`. Each of `lanes` threads copies its part of the values.
  PENSTOCK_HOST_DEVICE void copy(const held_window& source, std::int64_t position, int lane, int lanes) noexcept {
    filled_ = position > 0 ? source.counts_[0] : 0;
    next_ = position > 0 ? source.counts_[extent_.channels] : 0;
    steps_ = position > 0 ? source.counts_[2 * extent_.channels] : 0;
    for (std::int32_t index = lane; index < filled_; index += lanes) {
      values_[index * extent_.channels] = source.values_[index * extent_.channels];
    }
    for (std::int32_t index = lane; index < extent_.gap && index < position; index += lanes) {
      late_[index * extent_.channels] = source.late_[index * extent_.channels];
      above_[index * extent_.channels] = source.above_[index * extent_.channels];
    }
  }
  /// Writes the counts to the state.
  PENSTOCK_HOST_DEVICE void leave() const noexcept {
    counts_[0] = filled_;
    counts_[extent_.channels] = next_;
    counts_[2 * extent_.channels] = steps_;
  }
  /// Goes on as at the start of a session.
  PENSTOCK_HOST_DEVICE void begin() noexcept { filled_ = next_ = steps_ = 0; }

  [[nodiscard]] PENSTOCK_HOST_DEVICE double score(float value, const window_sums& sums,
                                                  const deviation_floor& floor) const noexcept {
    if (filled_ < extent_.window) {
      return 0.0;
    }
    const double mean = sums.broken != 0 ? static_cast<double>(NAN) : sums.mean(share_);
    return (static_cast<double>(value) - mean) /
           floor.applied(sums.deviation(share_), mean, static_cast<double>(value));
  }

  /// Moves the window after the score of step `step`. Returns true if the sums must be computed anew. The lanes of a
  /// warp call it together with the same arguments; each writes everything, and so reads what it has written.
  PENSTOCK_HOST_DEVICE bool take(float value, bool above, std::int64_t step, window_sums& sums) noexcept {
    bool comes = !above;
    float coming = value;
    const std::int64_t slot = extent_.gap > 0 ? step % extent_.gap * extent_.channels : 0;
    if (extent_.gap > 0) {
      comes = steps_ == extent_.gap && !above && above_[slot] == 0;
      steps_ += steps_ < extent_.gap ? 1 : 0;
      coming = comes ? late_[slot] : 0.0F;
    }
    const std::int64_t place = next_ * extent_.channels;
    const bool full = filled_ == extent_.window;
    const float leaving = comes && full ? values_[place] : 0.0F;
#ifdef __CUDA_ARCH__
    __syncwarp();
#endif
    if (extent_.gap > 0) {
      late_[slot] = value;
      above_[slot] = above ? 1U : 0U;
    }
    if (!comes) {
      return false;
    }
    values_[place] = coming;
    next_ = next_ + 1 == extent_.window ? 0 : next_ + 1;
    if (full) {
      sums.add(leaving, -1.0);
    } else {
      ++filled_;
    }
    sums.add(coming, 1.0);
    return full && sums.worn();
  }

 private:
  extent extent_;
  double share_;
  std::int32_t filled_ = 0;
  std::int32_t next_ = 0;   ///< where the next value goes
  std::int32_t steps_ = 0;  ///< late ones, at most the gap
  std::int32_t* counts_;    ///< of the state: these three
  float* values_;
  float* late_;
  std::uint32_t* above_;
};

/// Scores one step, and moves the window. `worn`: the sums must be computed anew.
[[nodiscard]] PENSTOCK_HOST_DEVICE inline float score_step(held_window& window, window_sums& sums, float value,
                                                           std::int64_t step, const deviation_floor& floor, double hold,
                                                           invalid_samples on_nan, bool& worn) noexcept {
  if (on_nan != invalid_samples::spread && !is_valid(value)) {
    if (on_nan == invalid_samples::reset) {
      window.begin();
      sums = {};
      worn = false;
    } else {
      worn = window.take(value, true, step, sums);
    }
    return NAN;
  }
  const auto z = static_cast<float>(window.score(value, sums, floor));
  worn = window.take(value, static_cast<double>(z < 0.0F ? -z : z) > hold, step, sums);
  return z;
}

/// The numbers of a moving_zscore that may be tuned.
struct zscore_levels {
  double hold;
  double threshold;
};

/// moving_zscore: distance of each step from the mean of the steps before it, in their standard deviations, per
/// channel.
///
///   z[n] = (v[n] - mean) / max(std, floor)     mean and population standard deviation of v[n-G-W] … v[n-G-1]
///   z[n] = 0 for n < G + W
/// n counts steps (indices of the first dimension) from the start of the session, however it is cut into frames; W is
/// the window, G the gap. With `hold` the window does not move at a step whose |z| is above that level, and such a step
/// never enters the window: v[m] enters after step m + G, unless |z[m]| or |z[m+G]| is above. So a fault never becomes
/// normal, however long it lasts; a new level that is to stay needs a new session.
/// In float64, so that z is accurate for any mean: on the host the moments of parts of a window are joined, on CUDA
/// differences to one step of the window and their squares are summed (both in T. F. Chan, G. H. Golub, R. J. LeVeque,
/// The American Statistician 37, 1983).
///
/// Input: f32, any shape. Output: the input's shape, f32 scores or u8 flags.
/// State: W steps; with a gap, `hold` or `on_nan` W + 2 G + 3, and the steps are computed one after the other: on CUDA
/// one warp a channel of a session, so such a pipeline needs many channels and sessions. Parameters:
///   window     integer, 2 … 65536: W; required
///   floor      number > 0 in the input's unit: minimum deviation; default: 1e-6 of the larger of |mean| and |v[n]|, so
///   that
///              no unit matters
///   gap        integer, 0 … 65536: G, default 0
///   hold       number > 0: the level; default: none; tunable where it is given
///   output     "score" (default): z, or "flags": 1 where |z| > threshold, else 0
///   threshold  number > 0, default 4; only with "flags"; tunable
///   on_nan     what an invalid sample, a NaN or an infinity, does to its channel:
///              "spread" (default): it enters the window as others do
///              "reset": its score is NaN, its flag 0, and behind it the channel begins anew, with an empty window
///              "hold":  its score is NaN, its flag 0, and the window does not move at it, nor does it ever enter it,
///              as
///                       at a step above the level
///   axis       along_axis.hpp
/// With "spread" a NaN or an infinity in the window makes z NaN and the flag 0. At a step that is itself NaN or
/// infinite, z is the same: an infinity has flag 1 and is above any level, a NaN is above none.
struct moving_zscore_settings {
  sliding_window window;
  deviation_floor floor;
  std::int32_t gap = 0;
  double hold = std::numeric_limits<double>::infinity();
  bool flags = false;
  double threshold = 4.0;
  invalid_samples on_nan = invalid_samples::spread;
  tensor_spec output;

  /// True if the window is not simply the steps just before.
  [[nodiscard]] bool held() const noexcept { return gap > 0 || !std::isinf(hold) || on_nan != invalid_samples::spread; }
  [[nodiscard]] bool has_hold() const noexcept { return !std::isinf(hold); }
  /// How many there are of moving_zscore_numbers: first the level, then the threshold.
  [[nodiscard]] std::int32_t numbers() const noexcept { return (has_hold() ? 1 : 0) + (flags ? 1 : 0); }
  /// The same with what a frame has instead.
  [[nodiscard]] zscore_levels levels(const double* row) const noexcept {
    return {has_hold() ? row[0] : hold, flags ? row[has_hold() ? 1 : 0] : threshold};
  }
  [[nodiscard]] held_window::extent extent() const noexcept {
    return {static_cast<std::int32_t>(window.length), gap, window.channels()};
  }
  [[nodiscard]] std::size_t state_bytes() const noexcept {
    return held() ? held_window::words(extent()) * sizeof(std::uint32_t) : window.state_bytes();
  }
};

[[nodiscard]] inline double parse_zscore_level(const parameters& settings, const char* key, double otherwise) {
  const double number = settings.number(key, otherwise);
  if (!(number > 0.0) || std::isinf(number)) {
    throw parameter_error(key, "must be a finite number above 0");
  }
  return number;
}

[[nodiscard]] inline bool parse_zscore_output(const parameters& settings) {
  const bool flags = parse_choice(settings, "output", {"score", "flags"}) == 1;
  if (!flags && settings.has("threshold")) {
    throw parameter_error("threshold", "is only for output = \"flags\"");
  }
  return flags;
}

/// Throws parameter_error.
[[nodiscard]] inline moving_zscore_settings parse_moving_zscore(const parameters& settings, const tensor_spec& input) {
  require_element_type("moving_zscore", input, {element_type::f32});
  moving_zscore_settings parsed;
  parsed.window = {.length = parse_integer(settings, "window", 2, 65536),
                   .includes_current = false,
                   .whole_frames = false,
                   .input = input};
  if (settings.has("floor")) {
    parsed.floor = {.least = parse_zscore_level(settings, "floor", 0.0), .relative = 0.0};
  }
  parsed.gap = static_cast<std::int32_t>(parse_integer(settings, "gap", 0, 65536, 0));
  if (settings.has("hold")) {
    parsed.hold = parse_zscore_level(settings, "hold", 0.0);
  }
  parsed.flags = parse_zscore_output(settings);
  parsed.threshold = parse_zscore_level(settings, "threshold", 4.0);
  parsed.on_nan = parse_on_nan(settings);
  parsed.output = input;
  parsed.output.type = parsed.flags ? element_type::u8 : element_type::f32;
  return parsed;
}

/// Throws parameter_error.
[[nodiscard]] inline std::vector<tunable_number> moving_zscore_numbers(const parameters& settings,
                                                                       std::span<const tensor_spec> inputs) {
  const moving_zscore_settings parsed = parse_moving_zscore(settings, inputs.front());
  std::vector<tunable_number> numbers;
  if (parsed.has_hold()) {
    numbers.push_back({"hold", parsed.hold});
  }
  if (parsed.flags) {
    numbers.push_back({"threshold", parsed.threshold});
  }
  return numbers;
}

[[nodiscard]] inline std::optional<session_traits> moving_zscore_session(const parameters& /*settings*/,
                                                                         std::span<const tensor_spec> /*inputs*/) {
  return session_traits{};
}

[[nodiscard]] std::unique_ptr<operation> make_moving_zscore_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_moving_zscore_cuda(const operation_request& request);

}  // namespace penstock

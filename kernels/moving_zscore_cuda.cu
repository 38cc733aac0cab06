#include <cstdint>
#include <utility>

#include "kernels/moving_zscore.hpp"
#include "kernels/sliding_window.cuh"

namespace penstock {
namespace {

/// The sum of differences to the pivot over some steps, and of their squares.
struct shifted_sums {
  double sum;
  double squares;
};

/// Sums of differences to one step of the window, in float64. That step is at most sqrt(window) deviations from the
/// mean of the window, so that cancellation loses at most a factor of `window`, whatever the level. The
/// only division is that of the score.
struct zscore_fold {
  using total = shifted_sums;
  static constexpr bool pivoted = true;

  deviation_floor floor;

  static __device__ float absent() { return 0.0F; }
  static __device__ total none() { return {0.0, 0.0}; }
  static __device__ total of(float value, float pivot) {
    const double difference = static_cast<double>(value) - static_cast<double>(pivot);
    return {difference, difference * difference};
  }
  static __device__ total joined(const total& a, const total& b) { return {a.sum + b.sum, a.squares + b.squares}; }

  template <class Move>
  static __device__ total moved(const total& moving, Move move) {
    return {move(moving.sum), move(moving.squares)};
  }

  /// A NaN or an infinity in the window makes its sums NaN or infinite, and the score NaN.
  template <class Fold>
  [[nodiscard]] __device__ float score(const window_halves<Fold>& halves, float current, std::int64_t position,
                                       std::int64_t window) const {
    if (position < window) {
      return 0.0F;
    }
    const auto older_pivot = static_cast<double>(halves.older_pivot);
    // The sums of the newer part, relative to the pivot of the older one.
    const auto count = static_cast<double>(halves.newer_count);
    const double apart = halves.newer_count == 0 ? 0.0 : static_cast<double>(halves.newer_pivot) - older_pivot;
    const double sum = fma(count, apart, halves.older.sum + halves.newer.sum);
    const double squares =
        fma(apart, fma(count, apart, 2.0 * halves.newer.sum), halves.older.squares + halves.newer.squares);
    const double share = 1.0 / static_cast<double>(window);
    const double mean = sum * share;
    const double variance = fma(-mean, mean, squares * share);
    const double deviation = sqrt(variance < 0.0 ? 0.0 : variance);
    const double scale = floor.applied(deviation, older_pivot + mean, static_cast<double>(current));
    return static_cast<float>((static_cast<double>(current) - older_pivot - mean) / scale);
  }
};

struct score_fold : zscore_fold {
  __device__ float result(const window_halves<score_fold>& halves, float current, std::int64_t position,
                          std::int64_t window) const {
    return score(halves, current, position, window);
  }
};

struct flag_fold : zscore_fold {
  double threshold;

  __device__ std::uint8_t result(const window_halves<flag_fold>& halves, float current, std::int64_t position,
                                 std::int64_t window) const {
    return fabs(static_cast<double>(score(halves, current, position, window))) > threshold ? 1 : 0;
  }
};

/// The sums of a window, computed by a warp. Every lane has them.
__device__ window_sums sums_of(const held_window& window) {
  const int lane = static_cast<int>(threadIdx.x) % warp_threads;
  const auto joined = [&](double pivot) {
    window_sums mine{pivot};
    for (std::int32_t at = lane; at < window.filled(); at += warp_threads) {
      mine.add(window.value(at), 1.0);
    }
#pragma unroll
    for (int apart = warp_threads / 2; apart > 0; apart /= 2) {
      mine.sum += __shfl_xor_sync(~0U, mine.sum, apart);
      mine.squares += __shfl_xor_sync(~0U, mine.squares, apart);
      mine.count += __shfl_xor_sync(~0U, mine.count, apart);
      mine.broken += __shfl_xor_sync(~0U, mine.broken, apart);
    }
    mine.max_squares = mine.squares;
    return mine;
  };
  const window_sums first = joined(0.0);
  return joined(first.count == 0 ? 0.0 : first.mean(1.0 / static_cast<double>(first.count)));
}

struct held_arguments {
  const float* input;
  session_arguments session;
  std::int64_t pitch;
  std::int64_t frames;
  held_window::extent extent;
  deviation_floor floor;
  double hold;
  invalid_samples on_nan;
  const double* numbers;  ///< moving_zscore_settings::levels by frame; nullptr: the same for all
  std::int32_t row;       ///< numbers of a frame
  bool has_hold;          ///< the first of them is the level, and the last one the threshold if there are flags
};

/// Flags by a threshold of each frame, from scores.
__global__ void __launch_bounds__(block_threads)
    flag_scores(const float* __restrict__ scores, const double* __restrict__ thresholds, std::int64_t frame_elements,
                std::int64_t count, std::uint8_t* __restrict__ output) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * block_threads;
  for (std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * block_threads + threadIdx.x; at < count;
       at += stride) {
    output[at] = static_cast<double>(fabsf(scores[at])) > thresholds[at / frame_elements] ? 1 : 0;
  }
}

__device__ __forceinline__ void store_score(float z, double /*threshold*/, float* destination) {
  *destination = z;
}
__device__ __forceinline__ void store_score(float z, double threshold, std::uint8_t* destination) {
  *destination = static_cast<double>(fabsf(z)) > threshold ? 1 : 0;
}

/// One warp for each channel of a session, step by step. All lanes do the same, but each loads and stores one of 32
/// steps. All lanes write what one writes, so that each reads what it wrote.
template <class Result>
__global__ void __launch_bounds__(block_threads)
    score_held(held_arguments given, double threshold, Result* __restrict__ output) {
  const int lane = static_cast<int>(threadIdx.x) % warp_threads;
  const std::int64_t items = given.frames * given.extent.channels;
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * (blockDim.x / warp_threads);
  for (std::int64_t item = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / warp_threads;
       item < items; item += warps) {
    auto index = static_cast<std::int32_t>(item / given.extent.channels);
    const std::int64_t channel = item % given.extent.channels;
    const session_frame* frame = &given.session.frames[index];
    if (frame->previous >= 0) {
      continue;
    }
    held_window window{reinterpret_cast<std::uint32_t*>(given.session.half(frame->place, 1 - frame->half)),
                       given.extent, channel};
    const held_window before{reinterpret_cast<std::uint32_t*>(given.session.half(frame->place, frame->half)),
                             given.extent, channel};
    window.copy(before, frame->position, lane, warp_threads);
    __syncwarp();
    window_sums sums = sums_of(window);
    for (; index >= 0; index = frame->next) {
      frame = &given.session.frames[index];
      const double* const numbers = given.numbers == nullptr ? nullptr : given.numbers + index * given.row;
      const double hold = numbers != nullptr && given.has_hold ? numbers[0] : given.hold;
      const double level = numbers != nullptr ? numbers[given.row - 1] : threshold;
      for (std::int64_t first = 0; first < frame->steps; first += warp_threads) {
        const std::int64_t at = index * given.pitch + (first + lane) * given.extent.channels + channel;
        const bool mine = first + lane < frame->steps;
        const float read = mine ? given.input[at] : 0.0F;
        float result = 0.0F;
        const int count = static_cast<int>(min(static_cast<std::int64_t>(warp_threads), frame->steps - first));
        for (int each = 0; each < count; ++each) {
          const float value = __shfl_sync(~0U, read, each);
          bool worn = false;
          const float z =
              score_step(window, sums, value, frame->position + first + each, given.floor, hold, given.on_nan, worn);
          result = lane == each ? z : result;
          if (worn) {
            __syncwarp();
            sums = sums_of(window);
          }
        }
        if (mine) {
          store_score(result, level, output + at);
        }
      }
    }
    window.leave();
    __syncwarp();
  }
}

class held_zscore_cuda final : public operation {
 public:
  explicit held_zscore_cuda(moving_zscore_settings settings)
      : settings_{std::move(settings)}, multiprocessors_{multiprocessor_count()} {}

  [[nodiscard]] std::size_t state_bytes() const noexcept override { return settings_.state_bytes(); }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    return settings_.flags ? enqueue(stream, arguments, static_cast<std::uint8_t*>(arguments.output))
                           : enqueue(stream, arguments, static_cast<float*>(arguments.output));
  }

 private:
  template <class Result>
  fault enqueue(void* stream, const operation_arguments& arguments, Result* output) const noexcept {
    const held_arguments given{.input = static_cast<const float*>(arguments.inputs[0]),
                               .session = arguments.session,
                               .pitch = settings_.window.input.elements(arguments.extent.leading),
                               .frames = arguments.extent.frames,
                               .extent = settings_.extent(),
                               .floor = settings_.floor,
                               .hold = settings_.hold,
                               .on_nan = settings_.on_nan,
                               .numbers = arguments.numbers,
                               .row = settings_.numbers(),
                               .has_hold = settings_.has_hold()};
    if (given.frames <= 0) {
      return {};
    }
    constexpr int threads = 64;
    const std::int64_t blocks = divide_up(given.frames * given.extent.channels * warp_threads, threads);
    return launch(stream, grid_of(blocks, most_blocks(multiprocessors_)), dim3(threads), &score_held<Result>, given,
                  settings_.threshold, output);
  }

  const moving_zscore_settings settings_;
  const std::int64_t multiprocessors_;
};

class moving_zscore_cuda final : public operation {
 public:
  explicit moving_zscore_cuda(moving_zscore_settings settings) : settings_{std::move(settings)} {}

  [[nodiscard]] std::size_t state_bytes() const noexcept override { return settings_.window.state_bytes(); }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    if (settings_.flags) {
      return enqueue_sliding<flag_fold, std::uint8_t>(stream, settings_.window, arguments,
                                                      {{settings_.floor}, settings_.threshold});
    }
    return enqueue_sliding<score_fold, float>(stream, settings_.window, arguments, {{settings_.floor}});
  }

 private:
  const moving_zscore_settings settings_;
};

/// Flags by a threshold of each frame, from scores in scratch.
class tuned_flags_cuda final : public operation {
 public:
  tuned_flags_cuda(moving_zscore_settings settings, std::int64_t max_frames)
      : settings_{std::move(settings)}, max_frames_{max_frames}, multiprocessors_{multiprocessor_count()} {}

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override {
    return static_cast<std::size_t>(max_frames_ * settings_.output.elements()) * sizeof(float);
  }
  [[nodiscard]] std::size_t state_bytes() const noexcept override { return settings_.window.state_bytes(); }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    operation_arguments scoring = arguments;
    scoring.output = arguments.scratch;
    if (const fault failed =
            enqueue_sliding<score_fold, float>(stream, settings_.window, scoring, {{settings_.floor}})) {
      return failed;
    }
    const std::int64_t pitch = settings_.window.input.elements(arguments.extent.leading);
    const std::int64_t count = arguments.extent.frames * pitch;
    if (count <= 0) {
      return {};
    }
    return launch(stream, grid_of(divide_up(count, block_threads), most_blocks(multiprocessors_)), dim3(block_threads),
                  &flag_scores, static_cast<const float*>(arguments.scratch), arguments.numbers, pitch, count,
                  static_cast<std::uint8_t*>(arguments.output));
  }

 private:
  const moving_zscore_settings settings_;
  const std::int64_t max_frames_;
  const std::int64_t multiprocessors_;
};

}  // namespace

std::unique_ptr<operation> make_moving_zscore_cuda(const operation_request& request) {
  moving_zscore_settings settings = parse_moving_zscore(request.settings, request.inputs[0]);
  if (settings.held()) {
    return std::make_unique<held_zscore_cuda>(std::move(settings));
  }
  if (settings.flags && request.tuned) {
    return std::make_unique<tuned_flags_cuda>(std::move(settings), request.max_frames);
  }
  return std::make_unique<moving_zscore_cuda>(std::move(settings));
}

}  // namespace penstock

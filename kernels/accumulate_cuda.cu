#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "kernels/accumulate.hpp"
#include "kernels/sliding_window.cuh"

namespace penstock {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

struct mean_fold {
  using total = double;
  static constexpr bool pivoted = false;

  static __device__ float absent() { return 0.0F; }
  static __device__ total none() { return 0.0; }
  static __device__ total of(float value, float /*pivot*/) { return static_cast<double>(value); }
  static __device__ total joined(total a, total b) { return a + b; }
  template <class Move>
  static __device__ total moved(total value, Move move) {
    return move(value);
  }
  __device__ float result(const window_halves<mean_fold>& halves, float /*current*/, std::int64_t position,
                          std::int64_t window) const {
    return finished(joined(halves.older, halves.newer), min(position + 1, window));
  }
  static __device__ float finished(total value, std::int64_t steps) {
    return static_cast<float>(value / static_cast<double>(steps));
  }
};

/// A NaN on either side of a join stays.
struct peak_fold {
  using total = float;
  static constexpr bool pivoted = false;

  static __device__ float absent() { return -infinity; }
  static __device__ total none() { return absent(); }
  static __device__ total of(float value, float /*pivot*/) { return value; }
  static __device__ total joined(total a, total b) { return a > b || isnan(a) ? a : b; }
  template <class Move>
  static __device__ total moved(total value, Move move) {
    return move(value);
  }
  __device__ float result(const window_halves<peak_fold>& halves, float /*current*/, std::int64_t /*position*/,
                          std::int64_t /*window*/) const {
    return joined(halves.older, halves.newer);
  }
  static __device__ float finished(total value, std::int64_t /*steps*/) { return value; }
};

/// What a kernel needs to know of the steps that have a result.
struct wanted_steps {
  std::int64_t window;
  std::int64_t every;
  std::int64_t tiles;  ///< of blockDim.x / places channels
  int places;          ///< threads that share a window's steps
};

/// A block folds the windows of one result for a few channels, side by side; the other threads divide the steps.
template <class Fold>
__global__ void __launch_bounds__(block_threads)
    fold_windows(const session_history<float> history, std::int64_t frames, std::int64_t keeps,
                 const wanted_steps wanted, std::int64_t pitch, float* __restrict__ output) {
  __shared__ typename Fold::total totals[block_threads];
  const int lanes = static_cast<int>(blockDim.x) / wanted.places;
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const int place = static_cast<int>(threadIdx.x) / lanes;
  for (auto index = static_cast<std::int32_t>(blockIdx.y); index < frames;
       index += static_cast<std::int32_t>(gridDim.y)) {
    const session_frame& frame = history.session.frames[index];
    const std::int64_t first = wanted.every - 1 - frame.position % wanted.every;
    for (std::int64_t item = blockIdx.x; item < frame.produced * wanted.tiles; item += gridDim.x) {
      const std::int64_t made = item / wanted.tiles;
      const std::int64_t channel = (item - made * wanted.tiles) * lanes + lane;
      const std::int64_t last = first + made * wanted.every;
      const std::int64_t held = min(frame.position + last + 1, wanted.window);
      typename Fold::total total = Fold::none();
      if (channel < history.channels) {
        for (std::int64_t step = last + 1 - held + place; step <= last; step += wanted.places) {
          total = Fold::joined(total, Fold::of(history.at(index, step, channel), 0.0F));
        }
      }
      totals[threadIdx.x] = total;
      for (int half = wanted.places / 2; half > 0; half /= 2) {
        __syncthreads();
        if (place < half) {
          totals[threadIdx.x] = Fold::joined(totals[threadIdx.x], totals[threadIdx.x + half * lanes]);
        }
      }
      if (place == 0 && channel < history.channels) {
        output[index * pitch + made * history.channels + channel] = Fold::finished(totals[threadIdx.x], held);
      }
      __syncthreads();
    }
    if (static_cast<std::int64_t>(blockIdx.x) < keeps) {
      keep_part(history, index, blockIdx.x, keeps);
    }
  }
}

/// The same for windows without their invalid steps, or with those behind the last of them alone.
template <class Fold>
__global__ void __launch_bounds__(block_threads)
    fold_valid(const session_history<float> history, std::int64_t frames, std::int64_t keeps, const wanted_steps wanted,
               bool reset, std::int64_t pitch, float* __restrict__ output) {
  __shared__ typename Fold::total totals[block_threads];
  __shared__ std::int64_t begins[block_threads];  // where the window begins
  __shared__ int counts[block_threads];
  const int lanes = static_cast<int>(blockDim.x) / wanted.places;
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const int place = static_cast<int>(threadIdx.x) / lanes;
  for (auto index = static_cast<std::int32_t>(blockIdx.y); index < frames;
       index += static_cast<std::int32_t>(gridDim.y)) {
    const session_frame& frame = history.session.frames[index];
    const std::int64_t first = wanted.every - 1 - frame.position % wanted.every;
    for (std::int64_t item = blockIdx.x; item < frame.produced * wanted.tiles; item += gridDim.x) {
      const std::int64_t made = item / wanted.tiles;
      const std::int64_t channel = (item - made * wanted.tiles) * lanes + lane;
      const std::int64_t last = first + made * wanted.every;
      const std::int64_t oldest = last + 1 - min(frame.position + last + 1, wanted.window);
      const bool inside = channel < history.channels;
      std::int64_t begin = oldest;
      for (std::int64_t step = oldest + place; reset && inside && step <= last; step += wanted.places) {
        begin = is_valid(history.at(index, step, channel)) ? begin : step + 1;
      }
      begins[threadIdx.x] = begin;
      for (int half = wanted.places / 2; half > 0; half /= 2) {
        __syncthreads();
        if (place < half) {
          begins[threadIdx.x] = max(begins[threadIdx.x], begins[threadIdx.x + half * lanes]);
        }
      }
      __syncthreads();
      begin = begins[lane];
      typename Fold::total total = Fold::none();
      int count = 0;
      for (std::int64_t step = begin + place; inside && step <= last; step += wanted.places) {
        const float value = history.at(index, step, channel);
        if (is_valid(value)) {
          total = Fold::joined(total, Fold::of(value, 0.0F));
          ++count;
        }
      }
      totals[threadIdx.x] = total;
      counts[threadIdx.x] = count;
      for (int half = wanted.places / 2; half > 0; half /= 2) {
        __syncthreads();
        if (place < half) {
          totals[threadIdx.x] = Fold::joined(totals[threadIdx.x], totals[threadIdx.x + half * lanes]);
          counts[threadIdx.x] += counts[threadIdx.x + half * lanes];
        }
      }
      if (place == 0 && inside) {
        output[index * pitch + made * history.channels + channel] =
            counts[threadIdx.x] == 0 ? NAN : Fold::finished(totals[threadIdx.x], counts[threadIdx.x]);
      }
      __syncthreads();
    }
    if (static_cast<std::int64_t>(blockIdx.x) < keeps) {
      keep_part(history, index, blockIdx.x, keeps);
    }
  }
}

/// Copies the results that are wanted from those of each step.
__global__ void __launch_bounds__(block_threads)
    pick_results(const session_frame* __restrict__ table, std::int64_t frames, std::int64_t channels,
                 std::int64_t every, const float* __restrict__ all, std::int64_t all_pitch, float* __restrict__ output,
                 std::int64_t pitch) {
  for (std::int64_t index = blockIdx.y; index < frames; index += gridDim.y) {
    const session_frame& frame = table[index];
    const std::int64_t first = every - 1 - frame.position % every;
    for (std::int64_t element = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
         element < frame.produced * channels; element += static_cast<std::int64_t>(gridDim.x) * blockDim.x) {
      const std::int64_t made = element / channels;
      output[index * pitch + element] =
          all[index * all_pitch + (first + made * every) * channels + (element - made * channels)];
    }
  }
}

class accumulate_cuda final : public operation {
 public:
  accumulate_cuda(accumulate_settings settings, std::int64_t max_frames)
      : settings_{std::move(settings)}, max_frames_{max_frames} {}

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override {
    return picks() ? static_cast<std::size_t>(max_frames_) * settings_.window.input.bytes() : 0;
  }
  [[nodiscard]] std::size_t state_bytes() const noexcept override { return settings_.window.state_bytes(); }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    return settings_.peak ? accumulate<peak_fold>(stream, arguments) : accumulate<mean_fold>(stream, arguments);
  }

 private:
  template <class Fold>
  fault accumulate(void* stream, const operation_arguments& arguments) noexcept {
    const batch_extent& extent = arguments.extent;
    if (settings_.every == 1 && !skips()) {
      return enqueue_sliding<Fold, float>(stream, settings_.window, arguments, {});
    }
    if (extent.frames <= 0) {
      return {};
    }
    const session_history<float> history = settings_.window.history(arguments);
    const std::int64_t results = settings_.rate().most(settings_.window.steps(extent));
    const std::int64_t pitch = settings_.output.elements(settings_.rate().most(extent.leading));
    const auto rows = static_cast<unsigned>(std::min<std::int64_t>(extent.frames, max_grid_rows));
    if (picks()) {
      operation_arguments all = arguments;
      all.output = arguments.scratch;
      if (const fault failed = enqueue_sliding<Fold, float>(stream, settings_.window, all, {})) {
        return failed;
      }
      const dim3 grid(grid_of(divide_up(results * history.channels, block_threads), max_blocks).x, rows);
      return launch(stream, grid, dim3(block_threads), &pick_results, arguments.session.frames, extent.frames,
                    history.channels, settings_.every, static_cast<const float*>(arguments.scratch), history.pitch,
                    static_cast<float*>(arguments.output), pitch);
    }
    const int lanes = power_of_two(history.channels, warp_threads);
    const int places = std::max(power_of_two(settings_.window.length, block_threads / lanes), warp_threads / lanes);
    const wanted_steps wanted{settings_.window.length, settings_.every, divide_up(history.channels, lanes), places};
    const std::int64_t keeps = std::min(keep_parts(history.length, history.channels), max_blocks);
    const dim3 grid(grid_of(std::max(results * wanted.tiles, keeps), max_blocks).x, rows);
    const dim3 block(static_cast<unsigned>(lanes * places));
    auto* const output = static_cast<float*>(arguments.output);
    if (skips()) {
      return launch(stream, grid, block, &fold_valid<Fold>, history, extent.frames, keeps, wanted,
                    settings_.on_nan == invalid_samples::reset, pitch, output);
    }
    return launch(stream, grid, block, &fold_windows<Fold>, history, extent.frames, keeps, wanted, pitch, output);
  }

  /// Whether invalid steps are left out of windows.
  [[nodiscard]] bool skips() const noexcept { return settings_.on_nan != invalid_samples::spread; }
  [[nodiscard]] bool picks() const noexcept { return settings_.picks() && !skips(); }

  static constexpr std::int64_t max_blocks = 65536;  ///< of a frame

  const accumulate_settings settings_;
  const std::int64_t max_frames_;
};

}  // namespace

std::unique_ptr<operation> make_accumulate_cuda(const operation_request& request) {
  return std::make_unique<accumulate_cuda>(parse_accumulate(request.settings, request.inputs[0]), request.max_frames);
}

}  // namespace penstock

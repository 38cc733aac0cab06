#pragma once

#include <cstdint>
#include <type_traits>

#include <cuda_runtime.h>

#include "kernels/fir.hpp"
#include "kernels/launch.cuh"
#include "kernels/session.cuh"

namespace penstock {

/// Type of the product of an input and a tap.
template <class In, class Tap>
using fir_value = std::conditional_t<std::is_same_v<In, float2> || std::is_same_v<Tap, float2>, float2, float>;

/// Type to which sums of such products are widened.
template <class Value>
struct fir_sum {
  using wide = double;
};
template <>
struct fir_sum<float2> {
  using wide = double2;
};

__device__ __forceinline__ void add_product(float& sum, float tap, float x) {
  sum = fmaf(tap, x, sum);
}
__device__ __forceinline__ void add_product(float2& sum, float tap, float2 x) {
  sum.x = fmaf(tap, x.x, sum.x);
  sum.y = fmaf(tap, x.y, sum.y);
}
__device__ __forceinline__ void add_product(float2& sum, float2 tap, float x) {
  sum.x = fmaf(tap.x, x, sum.x);
  sum.y = fmaf(tap.y, x, sum.y);
}
__device__ __forceinline__ void add_product(float2& sum, float2 tap, float2 x) {
  sum.x = fmaf(-tap.y, x.y, fmaf(tap.x, x.x, sum.x));
  sum.y = fmaf(tap.y, x.x, fmaf(tap.x, x.y, sum.y));
}

__device__ __forceinline__ void add(double& sum, double value) {
  sum += value;
}
__device__ __forceinline__ void add(double2& sum, double2 value) {
  sum.x += value.x;
  sum.y += value.y;
}

__device__ __forceinline__ void widen_into(double& sum, float value) {
  sum += static_cast<double>(value);
}
__device__ __forceinline__ void widen_into(double2& sum, float2 value) {
  sum.x += static_cast<double>(value.x);
  sum.y += static_cast<double>(value.y);
}

/// Adds the value of the lane at that distance. All lanes of the warp call it.
__device__ __forceinline__ void add_lane(double& sum, int distance) {
  sum += __shfl_xor_sync(~0U, sum, distance);
}
__device__ __forceinline__ void add_lane(double2& sum, int distance) {
  sum.x += __shfl_xor_sync(~0U, sum.x, distance);
  sum.y += __shfl_xor_sync(~0U, sum.y, distance);
}

__device__ __forceinline__ float narrow(double value) {
  return static_cast<float>(value);
}
__device__ __forceinline__ float2 narrow(double2 value) {
  return {static_cast<float>(value.x), static_cast<float>(value.y)};
}

/// How a launch divides a batch: for each frame, `tiles` blocks filter each of `groups` groups of channels, and `keeps`
/// blocks write the state of its session; if 0, the filtering blocks do.
struct fir_split {
  std::int64_t frames = 0;
  std::int64_t tiles = 1;
  std::int64_t groups = 1;
  std::int64_t keeps = 1;
  std::int64_t decimation = 1;
  std::int64_t taps = 1;
  std::int64_t out_pitch = 0;  ///< elements from one frame of the output to the next
  int threads = block_threads;
  int taps_at_once = 1;  ///< that fir_by_run stages
  int group = 1;         ///< channels of a group; the last may have fewer
  int outputs = 1;       ///< steps of a tile
  int rows = 1;          ///< of a phase, see fir_by_tile

  [[nodiscard]] std::int64_t parts() const noexcept { return tiles * groups + keeps; }
};

/// The work of one block for one frame.
struct fir_item {
  std::int32_t frame;
  std::int64_t first_output;  ///< of the frame's
  std::int64_t channel;       ///< the first of the group
  std::int64_t keep;          ///< the part of the state to be written, −1: none
};

/// The work of the block in column `blockIdx.x` of the grid. Rows of the grid take frames in turn.
[[nodiscard]] __device__ __forceinline__ fir_item item_of(const fir_split& split, std::int32_t frame) {
  const std::int64_t filters = split.tiles * split.groups;
  const std::int64_t part = blockIdx.x;
  const std::int64_t tile = split.groups == 1 ? part : part / split.groups;
  return {frame, tile * split.outputs, (part - tile * split.groups) * split.group,
          part < filters ? std::int64_t{-1} : part - filters};
}

/// Steps that a thread of fir_by_run sums. Odd, to avoid bank conflicts.
inline constexpr int run_steps = 7;
/// Maximum taps that a block of fir_by_run stages.
inline constexpr std::int64_t run_taps = 8 * fir_partial;
/// Maximum elements of input that it stages: the steps of a tile and those before it.
inline constexpr std::int64_t run_elements = std::int64_t{run_steps} * block_threads + (fir_partial - 1) * warp_threads;

/// Stages `steps` steps of the history of the frame from `first` on, for the channels of the group, in shared memory.
template <class In>
__device__ __forceinline__ void stage_steps(const session_history<In>& history, const fir_item& item,
                                            std::int64_t first, int steps, int group, In* staged) {
  if (group == history.channels) {
    copy_elements(history, item.frame, first * group, steps * group, staged);
    return;
  }
  for (int word = static_cast<int>(threadIdx.x); word < steps * group; word += static_cast<int>(blockDim.x)) {
    staged[word] = history.at(item.frame, first + word / group, item.channel + word % group);
  }
}

/// Writes the new state for the channels of the group from the newest staged steps, `before` of which lie before those
/// of the first output.
template <class In>
__device__ __forceinline__ void keep_staged(const session_history<In>& history, const session_frame& frame,
                                            const fir_item& item, int before, int outputs, int group,
                                            const In* staged) {
  const int kept = static_cast<int>(history.length);
  In* const destination = history.kept(frame, -history.length) + item.channel;
  const In* const source = staged + (before + outputs - kept) * group;
  const bool whole = group == history.channels;
  for (int word = static_cast<int>(threadIdx.x); word < kept * group; word += static_cast<int>(blockDim.x)) {
    destination[whole ? word : word / group * history.channels + word % group] = source[word];
  }
}

/// Without decimation. A thread sums `run_steps` neighbouring steps of one channel, whose window moves through its
/// registers: one tap and one element from shared memory serve all of them. If split.keeps is 0, the block that has
/// staged the last steps of a session writes its state. Channels: 1, or 0 for any number.
template <int Channels, class In, class Tap>
__global__ void __launch_bounds__(block_threads, sizeof(fir_value<In, Tap>) == sizeof(float) ? 3 : 2)
    fir_by_run(session_history<In> history, const Tap* __restrict__ taps, fir_split split,
               fir_value<In, Tap>* __restrict__ output) {
  using value = fir_value<In, Tap>;
  __shared__ __align__(sizeof(value)) unsigned char shared[run_elements * sizeof(value)];
  __shared__ Tap staged_taps[run_taps];
  In* const staged = reinterpret_cast<In*>(shared);
  value* const results = reinterpret_cast<value*>(shared);
  const int thread = static_cast<int>(threadIdx.x);
  const int threads = static_cast<int>(blockDim.x);
  for (auto index = static_cast<std::int32_t>(blockIdx.y); index < split.frames;
       index += static_cast<std::int32_t>(gridDim.y)) {
    const fir_item item = item_of(split, index);
    if (item.keep >= 0) {
      keep_part(history, item.frame, item.keep, split.keeps);
      continue;
    }
    const session_frame& frame = history.session.frames[item.frame];
    if (item.first_output >= frame.produced) {
      if (split.keeps == 0 && item.first_output == 0) {
        keep_part(history, item.frame, item.channel / split.group, split.groups);
      }
      continue;
    }
    const int outputs =
        static_cast<int>(min(static_cast<std::int64_t>(split.outputs), frame.produced - item.first_output));
    const std::int64_t channels = Channels == 0 ? history.channels : Channels;
    const int group = Channels == 0
                          ? static_cast<int>(min(static_cast<std::int64_t>(split.group), channels - item.channel))
                          : Channels;
    const int runs = threads / group;
    const int run = thread / group < runs ? thread / group : 0;
    const int place = run * run_steps * group + thread % group;
    const std::int64_t oldest = item.first_output - (split.taps - 1);
    typename fir_sum<value>::wide total[run_steps] = {};
    for (std::int64_t first_tap = 0; first_tap < split.taps; first_tap += split.taps_at_once) {
      const int count = static_cast<int>(min(static_cast<std::int64_t>(split.taps_at_once), split.taps - first_tap));
      __syncthreads();
      stage_steps(history, item, oldest + first_tap, outputs + count - 1, group, staged);
      for (int tap = thread; tap < count; tap += threads) {
        staged_taps[tap] = taps[first_tap + tap];
      }
      __syncthreads();
      if (split.keeps == 0 && frame.next < 0 && item.first_output + outputs == frame.produced) {
        keep_staged(history, frame, item, count - 1, outputs, group, staged);
      }
      In window[run_steps];
#pragma unroll
      for (int each = 0; each < run_steps - 1; ++each) {
        window[each] = staged[place + each * group];
      }
      const In* next = staged + place + (run_steps - 1) * group;
      for (int tap = 0; tap < count;) {
        const int end = min(tap + static_cast<int>(fir_partial), count);
        value partial[run_steps] = {};
#pragma unroll 7
        for (; tap < end; ++tap, next += group) {
          window[run_steps - 1] = *next;
          const Tap weight = staged_taps[tap];
#pragma unroll
          for (int each = 0; each < run_steps; ++each) {
            add_product(partial[each], weight, window[each]);
          }
#pragma unroll
          for (int each = 1; each < run_steps; ++each) {
            window[each - 1] = window[each];
          }
        }
#pragma unroll
        for (int each = 0; each < run_steps; ++each) {
          widen_into(total[each], partial[each]);
        }
      }
    }
    // Through shared memory, so that neighbouring threads write neighbouring results.
    __syncthreads();
    if (thread < runs * group) {
#pragma unroll
      for (int each = 0; each < run_steps; ++each) {
        results[place + each * group] = narrow(total[each]);
      }
    }
    __syncthreads();
    value* const destination = output + item.frame * split.out_pitch + item.first_output * channels + item.channel;
    if (group == channels) {
      for (int word = thread; word < outputs * group; word += threads) {
        destination[word] = results[word];
      }
    } else {
      for (int word = thread; word < outputs * group; word += threads) {
        destination[word / group * channels + word % group] = results[word];
      }
    }
    __syncthreads();
  }
}

/// Shared memory that a block of fir_by_tile stages its input in.
inline constexpr int staged_bytes = 32768;

/// For small decimations from 2 on. A tile of outputs stages the input steps that it needs for `fir_partial` taps at a
/// time, in phases: staged step t is row t / D of phase t mod D. The step that goes with output m and the r-th of these
/// taps (the oldest first) is t = D·m + r, row m + r / D of phase r mod D: neighbouring threads, which have
/// neighbouring outputs or channels, read neighbouring words, whatever D is. `rows` is odd, so that neighbouring phases
/// are in different banks.
template <int OutputsPerThread, class In, class Tap>
__global__ void __launch_bounds__(block_threads) fir_by_tile(session_history<In> history, const Tap* __restrict__ taps,
                                                             fir_split split, fir_value<In, Tap>* __restrict__ output) {
  using value = fir_value<In, Tap>;
  __shared__ In staged[staged_bytes / sizeof(In)];
  __shared__ Tap staged_taps[fir_partial];
  const int thread = static_cast<int>(threadIdx.x);
  const int decimation = static_cast<int>(split.decimation);
  for (auto index = static_cast<std::int32_t>(blockIdx.y); index < split.frames;
       index += static_cast<std::int32_t>(gridDim.y)) {
    const fir_item item = item_of(split, index);
    if (item.keep >= 0) {
      keep_part(history, item.frame, item.keep, split.keeps);
      continue;
    }
    const session_frame& frame = history.session.frames[item.frame];
    if (item.first_output >= frame.produced) {
      continue;
    }
    const int outputs =
        static_cast<int>(min(static_cast<std::int64_t>(split.outputs), frame.produced - item.first_output));
    const int group = static_cast<int>(min(static_cast<std::int64_t>(split.group), history.channels - item.channel));
    const std::int64_t oldest =
        first_kept_step(frame.position, split.decimation) + split.decimation * item.first_output - (split.taps - 1);
    int lanes[OutputsPerThread];
    typename fir_sum<value>::wide total[OutputsPerThread] = {};
#pragma unroll
    for (int each = 0; each < OutputsPerThread; ++each) {
      const int lane = thread + each * block_threads;
      lanes[each] = lane < outputs * group ? lane : 0;
    }
    for (std::int64_t first_tap = 0; first_tap < split.taps; first_tap += fir_partial) {
      const int count = static_cast<int>(min(fir_partial, split.taps - first_tap));
      const int phases = min(decimation, count);
      const int steps = decimation * (outputs - 1) + count;
      const int words = (outputs + (count - 1) / decimation) * phases * group;
      __syncthreads();
      for (int word = thread; word < words; word += block_threads) {
        const int channel = word % group;
        const int row = word / group / phases;
        const int phase = word / group % phases;
        const int step = row * decimation + phase;
        if (step < steps) {
          staged[(phase * split.rows + row) * group + channel] =
              history.at(item.frame, oldest + first_tap + step, item.channel + channel);
        }
      }
      if (thread < count) {
        staged_taps[thread] = taps[first_tap + thread];
      }
      __syncthreads();
      value partial[OutputsPerThread] = {};
      for (int phase = 0; phase < phases; ++phase) {
        const In* row = staged + phase * split.rows * group;
#pragma unroll 4
        for (int tap = phase; tap < count; tap += decimation, row += group) {
          const Tap weight = staged_taps[tap];
#pragma unroll
          for (int each = 0; each < OutputsPerThread; ++each) {
            add_product(partial[each], weight, row[lanes[each]]);
          }
        }
      }
#pragma unroll
      for (int each = 0; each < OutputsPerThread; ++each) {
        widen_into(total[each], partial[each]);
      }
    }
#pragma unroll
    for (int each = 0; each < OutputsPerThread; ++each) {
      const int lane = thread + each * block_threads;
      if (lane < outputs * group) {
        const std::int64_t step = item.first_output + lane / group;
        output[item.frame * split.out_pitch + step * history.channels + item.channel + lane % group] =
            narrow(total[each]);
      }
    }
  }
}

/// For large decimations, a team of threads for each step of the output: a warp, or the whole block where there are
/// many taps. The team's threads share the taps, and within a tap they are next to each other along the channels
/// (`group`, a power of two of at most a warp) or, with one channel, along the input.
template <int Team, class In, class Tap>
__global__ void __launch_bounds__(block_threads) fir_by_team(session_history<In> history, const Tap* __restrict__ taps,
                                                             fir_split split, fir_value<In, Tap>* __restrict__ output) {
  using value = fir_value<In, Tap>;
  using wide = typename fir_sum<value>::wide;
  static_assert(Team >= warp_threads && block_threads % Team == 0);
  __shared__ wide warp_sums[block_warps][warp_threads];
  const int thread = static_cast<int>(threadIdx.x) % Team;
  const int team = static_cast<int>(threadIdx.x) / Team;
  const int lane_of_warp = thread % warp_threads;
  for (auto index = static_cast<std::int32_t>(blockIdx.y); index < split.frames;
       index += static_cast<std::int32_t>(gridDim.y)) {
    const fir_item item = item_of(split, index);
    if (item.keep >= 0) {
      keep_part(history, item.frame, item.keep, split.keeps);
      continue;
    }
    const session_frame& frame = history.session.frames[item.frame];
    const std::int64_t step = item.first_output + team;
    const std::int64_t channel = item.channel + thread % split.group;
    const bool wanted = step < frame.produced && channel < history.channels;
    const std::int64_t oldest =
        first_kept_step(frame.position, split.decimation) + split.decimation * step - (split.taps - 1);
    const std::int64_t stride = Team / split.group;
    wide total = {};
    std::int64_t tap = wanted ? thread / split.group : split.taps;
    while (tap < split.taps) {
      value partial = {};
      const std::int64_t end = min(tap + stride * fir_partial, split.taps);
#pragma unroll 4
      for (; tap < end; tap += stride) {
        add_product(partial, taps[tap], history.at(item.frame, oldest + tap, channel));
      }
      widen_into(total, partial);
    }
    for (int distance = split.group; distance < warp_threads; distance *= 2) {
      add_lane(total, distance);
    }
    if (Team > warp_threads) {
      __syncthreads();
      warp_sums[thread / warp_threads][lane_of_warp] = total;
      __syncthreads();
      total = {};
      for (int warp = 0; warp < Team / warp_threads; ++warp) {
        add(total, warp_sums[warp][lane_of_warp]);
      }
    }
    if (wanted && thread < split.group) {
      output[item.frame * split.out_pitch + step * history.channels + channel] = narrow(total);
    }
  }
}

[[nodiscard]] __device__ __forceinline__ bool is_valid(float2 sample) {
  return is_valid(sample.x) && is_valid(sample.y);
}
__device__ __forceinline__ void set_nan(float& value) {
  value = NAN;
}
__device__ __forceinline__ void set_nan(float2& value) {
  value = {NAN, NAN};
}

/// The valid samples of a channel from a step of a frame backwards: those of the batch, then those of the state, all of
/// which are valid. With `reset` an invalid one ends them.
template <class In>
struct valid_samples {
  const session_history<In>& history;
  std::int32_t frame;
  std::int64_t step;
  std::int64_t channel;
  bool reset;
  bool ended = false;

  /// Zero where there is none.
  __device__ In next() {
    while (!ended) {
      while (step < 0 && history.session.frames[frame].previous >= 0) {
        frame = history.session.frames[frame].previous;
        step += history.session.frames[frame].steps;
      }
      if (step < 0) {
        const session_frame& first = history.session.frames[frame];
        ended = step < -history.length || first.position + step < 0;
        if (ended) {
          break;
        }
        const auto* const kept = reinterpret_cast<const In*>(history.session.half(first.place, first.half));
        const In sample = kept[(history.length + step) * history.channels + channel];
        --step;
        return sample;
      }
      const In sample = history.input[frame * history.pitch + step * history.channels + channel];
      --step;
      if (is_valid(sample)) {
        return sample;
      }
      ended = reset;
    }
    return In{};
  }
};

/// Without invalid samples: a thread sums one output, and takes the samples for it one by one. The new state is what
/// the filter goes on with.
template <class In, class Tap>
__global__ void __launch_bounds__(block_threads)
    fir_valid(session_history<In> history, const Tap* __restrict__ taps, fir_split split, bool reset,
              fir_value<In, Tap>* __restrict__ output) {
  using value = fir_value<In, Tap>;
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::int64_t threads = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (auto index = static_cast<std::int32_t>(blockIdx.y); index < split.frames;
       index += static_cast<std::int32_t>(gridDim.y)) {
    const session_frame& frame = history.session.frames[index];
    const std::int64_t first = first_kept_step(frame.position, split.decimation);
    for (std::int64_t element = thread; element < frame.produced * history.channels; element += threads) {
      const std::int64_t made = element / history.channels;
      const std::int64_t channel = element - made * history.channels;
      const std::int64_t step = first + made * split.decimation;
      value result{};
      if (is_valid(history.input[index * history.pitch + step * history.channels + channel])) {
        valid_samples<In> samples{history, index, step, channel, reset};
        typename fir_sum<value>::wide total = {};
        for (std::int64_t tap = split.taps; tap > 0 && !samples.ended;) {
          value partial{};
          const std::int64_t end = max(tap - fir_partial, std::int64_t{0});
          for (; tap > end; --tap) {
            add_product(partial, taps[tap - 1], samples.next());
          }
          widen_into(total, partial);
        }
        result = narrow(total);
      } else {
        set_nan(result);
      }
      output[index * split.out_pitch + element] = result;
    }
    for (std::int64_t channel = thread; channel < history.channels && frame.next < 0; channel += threads) {
      valid_samples<In> samples{history, index, frame.steps - 1, channel, reset};
      for (std::int64_t back = 1; back <= history.length; ++back) {
        history.kept(frame, -back)[channel] = samples.next();
      }
    }
  }
}

}  // namespace penstock

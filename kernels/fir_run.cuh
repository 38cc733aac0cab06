#pragma once

#include <cstdint>

#include "kernels/fir.hpp"
#include "kernels/fir_split.cuh"
#include "kernels/fir_sum.cuh"
#include "kernels/session_state.cuh"

namespace penstock {

/// Steps that a thread of fir_by_run sums. Odd, so that the places of neighbouring threads meet no bank twice.
inline constexpr int run_steps = 7;
/// The most taps that a block of fir_by_run stages.
inline constexpr std::int64_t run_taps = 8 * fir_partial;
/// The most that it stages of the input, in elements: the steps of a tile and those before it.
inline constexpr std::int64_t run_elements = std::int64_t{run_steps} * block_threads + (fir_partial - 1) * warp_threads;

/// `steps` steps of the frame's history from `first` on, of the group's channels, into shared memory.
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

/// Of the group's channels, what the frame's session keeps: the newest steps that were staged, of which so many lie
/// before the first output's own.
template <class In>
__device__ __forceinline__ void keep_staged(const session_history<In>& history, const session_frame& frame,
                                            const fir_item& item, int before, int outputs, int group,
                                            const In* staged) {
  const int kept = static_cast<int>(history.length);
  In* const to = history.kept(frame, -history.length) + item.channel;
  const In* const from = staged + (before + outputs - kept) * group;
  const bool whole = group == history.channels;
  for (int word = static_cast<int>(threadIdx.x); word < kept * group; word += static_cast<int>(blockDim.x)) {
    to[whole ? word : word / group * history.channels + word % group] = from[word];
  }
}

/// Without decimation. A thread sums `run_steps` neighbouring steps of one channel, and the window that they see moves
/// through its registers: a tap and one element from shared memory serve them all. Where no blocks keep a session's
/// state, the one that has its last steps staged does. Channels: 1, or 0 for any number.
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
    value* const to = output + item.frame * split.out_pitch + item.first_output * channels + item.channel;
    if (group == channels) {
      for (int word = thread; word < outputs * group; word += threads) {
        to[word] = results[word];
      }
    } else {
      for (int word = thread; word < outputs * group; word += threads) {
        to[word / group * channels + word % group] = results[word];
      }
    }
    __syncthreads();
  }
}

}  // namespace penstock

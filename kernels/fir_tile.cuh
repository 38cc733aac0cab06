#pragma once

#include <cstdint>

#include "kernels/fir.hpp"
#include "kernels/fir_split.cuh"
#include "kernels/fir_sum.cuh"
#include "kernels/session_state.cuh"

namespace penstock {

/// Shared memory that a block of fir_by_tile stages its input in.
inline constexpr int staged_bytes = 32768;

/// For small decimations from 2 on. A tile of outputs stages the input steps that it needs for `fir_partial` taps at a
/// time, in phases: staged step t is row t / D of phase t mod D. The step that goes with output m and the r-th of these
/// taps (the oldest first) is t = D·m + r, row m + r / D of phase r mod D: neighbouring threads, which have
/// neighbouring outputs or channels, read neighbouring words, whatever D is. `rows` is odd, so that neighbouring phases
/// are in different banks.
template <int OutputsAThread, class In, class Tap>
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
    int lanes[OutputsAThread];
    typename fir_sum<value>::wide total[OutputsAThread] = {};
#pragma unroll
    for (int each = 0; each < OutputsAThread; ++each) {
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
      value partial[OutputsAThread] = {};
      for (int phase = 0; phase < phases; ++phase) {
        const In* row = staged + phase * split.rows * group;
#pragma unroll 4
        for (int tap = phase; tap < count; tap += decimation, row += group) {
          const Tap weight = staged_taps[tap];
#pragma unroll
          for (int each = 0; each < OutputsAThread; ++each) {
            add_product(partial[each], weight, row[lanes[each]]);
          }
        }
      }
#pragma unroll
      for (int each = 0; each < OutputsAThread; ++each) {
        widen_into(total[each], partial[each]);
      }
    }
#pragma unroll
    for (int each = 0; each < OutputsAThread; ++each) {
      const int lane = thread + each * block_threads;
      if (lane < outputs * group) {
        const std::int64_t step = item.first_output + lane / group;
        output[item.frame * split.out_pitch + step * history.channels + item.channel + lane % group] =
            narrow(total[each]);
      }
    }
  }
}

}  // namespace penstock

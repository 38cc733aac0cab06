#pragma once

#include <cstdint>

#include "kernels/fir.hpp"
#include "kernels/fir_split.cuh"
#include "kernels/fir_sum.cuh"
#include "kernels/session_state.cuh"

namespace penstock {

/// For large decimations, a team of threads for each step of the output: a warp, or the whole block where there are
/// many taps. The team's threads share the taps, and within a tap they are next to each other along the channels
/// (`group`, a power of two of at most a warp) or, with one channel, along the input.
template <int Team, class In, class Tap>
__global__ void __launch_bounds__(block_threads) fir_by_team(session_history<In> history, const Tap* __restrict__ taps,
                                                             fir_split split, fir_value<In, Tap>* __restrict__ output) {
  using value = fir_value<In, Tap>;
  using wide = typename fir_sum<value>::wide;
  static_assert(Team >= warp_threads && block_threads % Team == 0);
  __shared__ wide of_warps[block_warps][warp_threads];
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
      of_warps[thread / warp_threads][lane_of_warp] = total;
      __syncthreads();
      total = {};
      for (int warp = 0; warp < Team / warp_threads; ++warp) {
        add(total, of_warps[warp][lane_of_warp]);
      }
    }
    if (wanted && thread < split.group) {
      output[item.frame * split.out_pitch + step * history.channels + channel] = narrow(total);
    }
  }
}

}  // namespace penstock

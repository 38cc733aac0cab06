#pragma once

#include <cstdint>
#include <limits>

#include "kernels/hysteresis.hpp"
#include "kernels/launch.cuh"

namespace penstock {

/// Samples of a hysteresis_word.
inline constexpr int word_samples = 32;
/// What is neither above nor below a threshold.
inline constexpr float neutral_sample = std::numeric_limits<float>::quiet_NaN();

// A run in one register: at most 2^23 events start in a row.
__device__ __forceinline__ std::int32_t packed(const hysteresis_run& run) {
  return run.starts * 8 + (run.first_sets ? 4 : 0) + (run.neutral ? 2 : 0) + (run.leaves_on ? 1 : 0);
}
__device__ __forceinline__ hysteresis_run unpacked(std::int32_t run) {
  return {run >> 3, (run & 4) != 0, (run & 2) != 0, (run & 1) != 0};
}

/// The words of a segment of `count` samples, each compared by a warp and handed to its thread; samples beyond `count`
/// are neutral. Synchronizes the block.
template <int Threads>
__device__ hysteresis_word classify(const float* __restrict__ samples, int count, float high, float low,
                                    uint2 (&words)[Threads]) {
  const int lane = static_cast<int>(threadIdx.x) % warp_threads;
#pragma unroll 8
  for (int word = static_cast<int>(threadIdx.x) / warp_threads; word < Threads; word += Threads / warp_threads) {
    const int at = word * word_samples + lane;
    const float value = at < count ? samples[at] : neutral_sample;
    const std::uint32_t set = __ballot_sync(~0U, value >= high);
    const std::uint32_t reset = __ballot_sync(~0U, value < low);
    if (lane == 0) {
      words[word] = make_uint2(set, reset);
    }
  }
  __syncthreads();
  return {words[threadIdx.x].x, words[threadIdx.x].y};
}

struct scanned_run {
  hysteresis_run before;  ///< the runs of the threads before this one, joined
  hysteresis_run whole;   ///< those of all threads
};

/// Joins the runs of a block's threads in their order. Synchronizes the block once; `of_warps` may be written again
/// after the next synchronization.
template <int Threads>
__device__ scanned_run scan_runs(const hysteresis_run& own, std::int32_t (&of_warps)[Threads / warp_threads]) {
  const int lane = static_cast<int>(threadIdx.x) % warp_threads;
  const int warp = static_cast<int>(threadIdx.x) / warp_threads;
  hysteresis_run through = own;
#pragma unroll
  for (int distance = 1; distance < warp_threads; distance *= 2) {
    const hysteresis_run earlier = unpacked(__shfl_up_sync(~0U, packed(through), distance));
    if (lane >= distance) {
      through = earlier.then(through);
    }
  }
  const hysteresis_run in_warp = unpacked(__shfl_up_sync(~0U, packed(through), 1));
  if (lane == warp_threads - 1) {
    of_warps[warp] = packed(through);
  }
  __syncthreads();
  scanned_run scanned;
#pragma unroll
  for (int other = 0; other < Threads / warp_threads; ++other) {
    if (other == warp) {
      scanned.before = scanned.whole;
    }
    scanned.whole = scanned.whole.then(unpacked(of_warps[other]));
  }
  if (lane > 0) {
    scanned.before = scanned.before.then(in_warp);
  }
  return scanned;
}

}  // namespace penstock

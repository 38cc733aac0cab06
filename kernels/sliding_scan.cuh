#pragma once

#include "kernels/launch.cuh"
#include "kernels/session_block.cuh"

namespace penstock {

/// What a thread knows of a window's older or newer part. `cut`: a stretch begins or ends in it, and so nothing from
/// beyond belongs to it.
template <class Fold>
struct sliding_part {
  typename Fold::total total;
  bool cut;

  /// With what lies beyond it.
  __device__ __forceinline__ void extend(const sliding_part& beyond) {
    if (!cut) {
      total = Fold::joined(total, beyond.total);
      cut = beyond.cut;
    }
  }
};

/// What lies beyond each thread's part, up to the next cut: with `Later` in the threads of the later steps, else in
/// those of the earlier ones; behind all of them lies `outside`.
template <class Fold, int Lanes, bool Later>
__device__ typename Fold::total beyond(sliding_part<Fold> part, const typename Fold::total& outside,
                                       sliding_part<Fold> (&of_warps)[block_warps][Lanes]) {
  using block = session_block<Lanes>;
  const int others = Later ? block::warp_steps - 1 - block::place_in_warp() : block::place_in_warp();
  const auto shifted = [](const sliding_part<Fold>& from, int distance) {
    const auto move = [distance](auto value) {
      return Later ? __shfl_down_sync(~0U, value, distance) : __shfl_up_sync(~0U, value, distance);
    };
    return sliding_part<Fold>{Fold::moved(from.total, move), move(static_cast<int>(from.cut)) != 0};
  };
#pragma unroll
  for (int distance = 1; distance < block::warp_steps; distance *= 2) {
    const sliding_part<Fold> other = shifted(part, distance * Lanes);
    if (others >= distance) {
      part.extend(other);
    }
  }
  if (others == block::warp_steps - 1) {
    of_warps[block::warp()][block::lane()] = part;
  }
  sliding_part<Fold> result{Fold::none(), false};
  if constexpr (block::warp_steps > 1) {
    const sliding_part<Fold> other = shifted(part, Lanes);
    if (others > 0) {
      result = other;
    }
  }
  __syncthreads();
  for (int warp = block::warp() + (Later ? 1 : -1); warp >= 0 && warp < block::warps(); warp += Later ? 1 : -1) {
    result.extend(of_warps[warp][block::lane()]);
  }
  result.extend({outside, true});
  return result.total;
}

/// The total over all threads of a lane, in each of them.
template <class Fold, int Lanes>
__device__ typename Fold::total over_block(typename Fold::total total,
                                           typename Fold::total (&of_warps)[block_warps][Lanes]) {
  using block = session_block<Lanes>;
#pragma unroll
  for (int distance = 1; distance < block::warp_steps; distance *= 2) {
    total = Fold::joined(
        total, Fold::moved(total, [distance](auto value) { return __shfl_xor_sync(~0U, value, distance * Lanes); }));
  }
  if (block::place_in_warp() == 0) {
    of_warps[block::warp()][block::lane()] = total;
  }
  __syncthreads();
  total = Fold::none();
  for (int warp = 0; warp < block::warps(); ++warp) {
    total = Fold::joined(total, of_warps[warp][block::lane()]);
  }
  return total;
}

}  // namespace penstock

#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/launch.cuh"
#include "kernels/recent_frames.cuh"
#include "kernels/session_state.cuh"
#include "kernels/sliding_tile.cuh"
#include "kernels/sliding_window.hpp"

namespace penstock {

/// A launch of slide_windows: first the blocks that fold, then those that leave the new states, where these are too
/// large for the former.
struct sliding_launch {
  session_history<float> history;
  std::int64_t window = 1;
  std::int64_t current = 0;  ///< 1 where the window ends with the step itself
  std::int64_t tiles = 1;    ///< of each frame, at most
  std::int64_t groups = 1;   ///< of channels
  std::int64_t fold_blocks = 1;
  std::int64_t keep_blocks = 0;  ///< of each frame
};

/// The most blocks that leave one state, and how many times a folding block copies at most to leave its part.
inline constexpr std::int64_t most_keep_blocks = 64;
inline constexpr std::int64_t kept_rounds = 2;

/// Folds the windows of one tile. Of its step k, the window's older part are steps k … to the end of the stretch that k
/// is in, all taken one window earlier; its newer part are the steps of the stretch before k.
template <class Fold, int Lanes, class Out>
__device__ void fold_tile(const sliding_launch& launched, const sliding_tile& tile, std::int64_t channel,
                          const Fold& fold, Out* __restrict__ output) {
  using total = typename Fold::total;
  using block = session_block<Lanes>;
  __shared__ total rest_of_warps[block_warps][Lanes];
  __shared__ sliding_part<Fold> older_of_warps[block_warps][Lanes];
  __shared__ sliding_part<Fold> newer_of_warps[block_warps][Lanes];

  const int length = static_cast<int>(blockDim.x) / Lanes * sliding_steps;
  const int first = block::place() * sliding_steps;
  const auto window = static_cast<std::int32_t>(launched.window);
  session_cursor<float> cursor{launched.history, tile.frame};
  const sliding_thread<Fold> thread{cursor, channel, channel < launched.history.channels, first, window};
  const auto end = static_cast<std::int32_t>(divide_up(tile.count, launched.window) * launched.window);
  const std::int64_t oldest = tile.begin - launched.window + launched.current;

  float values[sliding_steps];
  total older[sliding_steps];
  float older_pivots[sliding_steps];
  unsigned open = 0;
  // The last step of the stretch that this thread's last one is in.
  const int last = first + sliding_steps - 1 - (thread.phase() + sliding_steps - 1) % window + window - 1;
  const float older_pivot = Fold::pivoted ? thread.value(oldest + last, last < end) : 0.0F;
  thread.load(oldest + first, end - first, values);
  const sliding_part<Fold> of_thread = thread.older_parts(values, end - first, older_pivot, older, older_pivots, open);

  // What all windows of the last stretch have in common, where it is longer than the tile.
  total rest = Fold::none();
  if (end > length) {
    const float pivot = Fold::pivoted ? thread.value(oldest + end - 1, true) : 0.0F;
    for (std::int32_t step = length + first; step < end; step += length) {
      thread.load(oldest + step, end - step, values);
#pragma unroll
      for (int i = 0; i < sliding_steps; ++i) {
        rest = i < end - step ? Fold::joined(rest, Fold::of(values[i], pivot)) : rest;
      }
    }
    rest = over_block<Fold, Lanes>(rest, rest_of_warps);
  }
  const total behind = beyond<Fold, Lanes, true>(of_thread, rest, older_of_warps);

  const auto current = static_cast<std::int32_t>(launched.current);
  const std::int32_t stretch = first - thread.phase();
  window_halves<Fold> halves;
  halves.newer_pivot =
      Fold::pivoted ? thread.value(tile.begin + current + stretch, stretch < tile.count - current) : 0.0F;
  halves.newer_count = thread.phase();
  thread.load(tile.begin + current + first, tile.count - current - first, values);
  halves.newer =
      beyond<Fold, Lanes, false>(thread.newer_part(values, halves.newer_pivot), Fold::none(), newer_of_warps);
  Out results[sliding_steps];
#pragma unroll
  for (int i = 0; i < sliding_steps; ++i) {
    if (thread.begins(i)) {
      halves.newer = Fold::none();
      halves.newer_pivot = values[i];
      halves.newer_count = 0;
    }
    const bool goes_on = (open >> static_cast<unsigned>(i) & 1U) != 0;
    halves.older = goes_on ? Fold::joined(older[i], behind) : older[i];
    halves.older_pivot = older_pivots[i];
    results[i] = fold.result(halves, values[i], tile.position + first + i, launched.window);
    halves.newer = Fold::joined(halves.newer, Fold::of(values[i], halves.newer_pivot));
    ++halves.newer_count;
  }
  thread.store(tile.begin + first, tile.count - first, results, output);
}

template <class Fold, int Lanes, class Out>
__global__ void __launch_bounds__(block_threads)
    slide_windows(const __grid_constant__ sliding_launch launched, const Fold fold, Out* __restrict__ output) {
  const auto item = static_cast<std::int64_t>(blockIdx.x);
  if (item >= launched.fold_blocks) {
    const std::int64_t kept = item - launched.fold_blocks;
    keep_part(launched.history, static_cast<std::int32_t>(kept / launched.keep_blocks), kept % launched.keep_blocks,
              launched.keep_blocks);
    return;
  }
  const std::int64_t group = item % launched.groups;
  const std::int64_t number = item / launched.groups % launched.tiles;
  const auto frame = static_cast<std::int32_t>(item / launched.groups / launched.tiles);
  const sliding_tile tile = find_tile(launched.history.session.frames, frame, number,
                                      static_cast<std::int64_t>(blockDim.x) / Lanes * sliding_steps);
  if (tile.count > 0) {
    fold_tile<Fold, Lanes>(launched, tile, group * Lanes + session_block<Lanes>::lane(), fold, output);
  }
  if (launched.keep_blocks == 0 && number == 0) {
    keep_part(launched.history, frame, group, launched.groups);
  }
}

/// Enqueues the fold over each step of a batch, with the lanes that suit the channels. `Fold` has, for the device:
///   pivoted                             whether a total is taken relative to a pivot: a step of the window that each
///                                       of the steps in the total shares with every other; the pivot is 0 where not
///   total                               what it knows of some steps
///   static float absent()               the value of a step before the session's start
///   static total none()                 of no steps: joined with it, a total stays what it is
///   static total of(float, float pivot) of one step
///   static total joined(total, total)   in any order; of one pivot
///   static total moved(total, move)     with move(number) for each number in it
///   Out result(window_halves, float current, std::int64_t position, std::int64_t window) const
/// `current` is the step's own value where the window is without it. In result the newer part may have no step; its
/// pivot is then none of the window's.
template <class Fold, class Out>
fault enqueue_sliding(void* stream, const sliding_window& window, const operation_arguments& arguments,
                      Fold fold) noexcept {
  if constexpr (!Fold::pivoted) {
    if (window.whole_frames && window.length <= most_recent_frames &&
        divide_up(window.channels(), block_threads) <= most_grid_rows) {
      return enqueue_recent_frames<Fold, Out>(stream, window, arguments, fold);
    }
  }
  const batch_extent& extent = arguments.extent;
  sliding_launch launched;
  launched.history = window.history(arguments);
  launched.window = window.length;
  launched.current = window.with_current ? 1 : 0;
  const std::int64_t channels = launched.history.channels;
  const int lanes = window.whole_frames && channels >= warp_threads ? warp_threads : lanes_for(channels);
  // The same in every batch: tiles begin at the same steps of a session however it is cut into frames.
  const std::int64_t span = window.whole_frames ? window.length : std::max(window.input.shape.front(), window.length);
  const int threads = threads_for(divide_up(span, sliding_steps) * lanes);
  launched.tiles =
      most_tiles(window.steps(extent), threads / lanes * sliding_steps, window.whole_frames || !window.input.variable);
  launched.groups = divide_up(channels, lanes);
  launched.fold_blocks = extent.frames * launched.tiles * launched.groups;
  const std::int64_t kept = launched.history.length * channels;
  const std::int64_t at_once = std::int64_t{elements_at_once} * threads;
  if (kept > launched.groups * at_once * kept_rounds) {
    launched.keep_blocks = std::min(divide_up(kept, at_once), most_keep_blocks);
  }
  const std::int64_t blocks = launched.fold_blocks + extent.frames * launched.keep_blocks;
  const auto enqueue = [&](auto kernel) {
    return launch(stream, dim3(static_cast<unsigned>(blocks)), dim3(static_cast<unsigned>(threads)), kernel, launched,
                  fold, static_cast<Out*>(arguments.output));
  };
  switch (lanes) {
    case 1:
      return enqueue(&slide_windows<Fold, 1, Out>);
    case 2:
      return enqueue(&slide_windows<Fold, 2, Out>);
    case 4:
      return enqueue(&slide_windows<Fold, 4, Out>);
    case 8:
      return enqueue(&slide_windows<Fold, 8, Out>);
    default:
      return enqueue(&slide_windows<Fold, warp_threads, Out>);
  }
}

}  // namespace penstock

#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/launch.cuh"
#include "kernels/session_block.cuh"
#include "kernels/session_cursor.hpp"
#include "kernels/sliding_scan.cuh"
#include "kernels/sliding_window.hpp"

namespace penstock {

/// A launch of slide_windows: first the blocks that fold, then those that leave the new states.
///
/// A tile is a stretch of a session's steps that begins at a multiple of the tile's length. The frame in which the
/// tile begins, or with which the session continues in this batch, leads it: its block does the tile's steps in the
/// frames that follow, too.
struct sliding_launch {
  session_history<float> history;
  std::int64_t window = 1;
  std::int64_t current = 0;  ///< 1 where the window ends with the step itself
  std::int64_t tiles = 1;    ///< of each frame, at most
  std::int64_t groups = 1;   ///< of channels
  std::int64_t fold_blocks = 1;
  std::int64_t keep_blocks = 1;  ///< of each frame
};

/// Steps that each thread folds.
inline constexpr int sliding_steps = 8;
/// The most blocks that leave one state, and how many floats each thread of fewer copies.
inline constexpr std::int64_t most_keep_blocks = 64;
inline constexpr std::int64_t sliding_copies = 8;

/// Which steps a block folds.
struct sliding_tile {
  std::int32_t frame = 0;     ///< that leads the tile
  std::int64_t begin = 0;     ///< the first step, counted from that frame's first
  std::int32_t count = 0;     ///< 0: none of this block's
  std::int64_t position = 0;  ///< of the first step in the session
};

/// Tile `number` of those that the frame could lead.
[[nodiscard]] static __device__ inline sliding_tile find_tile(const session_frame* frames, std::int32_t frame,
                                                              std::int64_t number, std::int64_t length) {
  const session_frame& of = frames[frame];
  const std::int64_t tile = of.position / length + number;
  const std::int64_t first = max(tile * length, of.position);
  const bool continues = of.previous < 0 && number == 0;
  const bool begins = tile * length >= of.position && tile * length < of.position + of.steps;
  if (!continues && !begins) {
    return {};
  }
  const std::int64_t begin = first - of.position;
  const std::int64_t most = (tile + 1) * length - of.position;
  std::int64_t end = of.steps;
  for (std::int32_t next = of.next; next >= 0 && end < most; next = frames[next].next) {
    end += frames[next].steps;
  }
  return {frame, begin, static_cast<std::int32_t>(max(min(end, most) - begin, std::int64_t{0})), first};
}

/// One thread's steps of a tile: `first` … first + sliding_steps − 1 of it, in one channel.
struct sliding_thread {
  session_cursor<float>& cursor;
  std::int64_t channel;
  bool inside;  ///< whether there is such a channel
  int first;
  std::int32_t window;

  /// Whether a stretch begins with step i of this thread. Stretches begin at the tile's first step and are of the
  /// window's length.
  [[nodiscard]] __device__ __forceinline__ bool begins(int i) const { return (first + i) % window == 0; }

  /// `count` values from `step` on, counted as the cursor does; absent ones behind them.
  template <class Fold>
  __device__ __forceinline__ void load(std::int64_t step, std::int32_t count, float (&values)[sliding_steps]) const {
#pragma unroll
    for (int i = 0; i < sliding_steps; ++i) {
      const float* const channels = inside && i < count ? cursor.at(step + i) : nullptr;
      values[i] = channels == nullptr ? Fold::absent() : channels[channel];
    }
  }
};

/// Of the windows that begin in this thread, what of it lies here; bit i of `open` says that window i goes on in the
/// threads behind. Of the `values`, `count` are there.
template <class Fold>
__device__ __forceinline__ sliding_part<Fold> older_parts(const sliding_thread& thread,
                                                          const float (&values)[sliding_steps], std::int32_t count,
                                                          typename Fold::total (&older)[sliding_steps],
                                                          unsigned& open) {
  sliding_part<Fold> part{Fold::none(), false};
  open = 0;
#pragma unroll
  for (int i = sliding_steps - 1; i >= 0; --i) {
    if (thread.begins(i + 1)) {
      part = {Fold::none(), true};
    }
    if (i < count) {
      part.total = Fold::joined(part.total, Fold::of(values[i]));
    }
    older[i] = part.total;
    open |= part.cut ? 0U : 1U << static_cast<unsigned>(i);
  }
  return part;
}

/// What this thread's steps give to the windows of the steps behind them.
template <class Fold>
__device__ __forceinline__ sliding_part<Fold> newer_part(const sliding_thread& thread,
                                                         const float (&values)[sliding_steps]) {
  sliding_part<Fold> part{Fold::none(), false};
#pragma unroll
  for (int i = 0; i < sliding_steps; ++i) {
    if (thread.begins(i)) {
      part = {Fold::none(), true};
    }
    part.total = Fold::joined(part.total, Fold::of(values[i]));
  }
  return part;
}

/// Folds the windows of one tile. Of its step k, the window's older part are steps k … to the end of the stretch that k
/// is in, all taken one window earlier; its newer part are the steps of the stretch before k.
template <class Fold, int Lanes, class Out>
__device__ void fold_tile(const sliding_launch& launched, const sliding_tile& tile, std::int64_t channel,
                          const Fold& fold, Out* __restrict__ output) {
  using total = typename Fold::total;
  constexpr int length = session_block<Lanes>::threads * sliding_steps;
  __shared__ total rest_of_warps[block_warps][Lanes];
  __shared__ sliding_part<Fold> older_of_warps[block_warps][Lanes];
  __shared__ sliding_part<Fold> newer_of_warps[block_warps][Lanes];

  session_cursor<float> cursor{launched.history, tile.frame};
  const sliding_thread thread{cursor, channel, channel < launched.history.channels,
                              session_block<Lanes>::place() * sliding_steps,
                              static_cast<std::int32_t>(launched.window)};
  const int first = thread.first;
  const auto end = static_cast<std::int32_t>(divide_up(tile.count, launched.window) * launched.window);
  const std::int64_t oldest = tile.begin - launched.window + launched.current;

  float values[sliding_steps];
  total older[sliding_steps];
  unsigned open = 0;
  thread.load<Fold>(oldest + first, end - first, values);
  const sliding_part<Fold> of_thread = older_parts<Fold>(thread, values, end - first, older, open);

  // What all windows of the last stretch have in common, where it is longer than the tile.
  total rest = Fold::none();
  if (end > length) {
    for (std::int32_t step = length + first; step < end; step += length) {
      thread.load<Fold>(oldest + step, end - step, values);
      rest = Fold::joined(rest, Fold::of(values, min(sliding_steps, end - step)));
    }
    rest = over_block<Fold, Lanes>(rest, rest_of_warps);
  }
  const total behind = beyond<Fold, Lanes, true>(of_thread, rest, older_of_warps);

  const auto current = static_cast<std::int32_t>(launched.current);
  thread.load<Fold>(tile.begin + current + first, tile.count - current - first, values);
  total newer = beyond<Fold, Lanes, false>(newer_part<Fold>(thread, values), Fold::none(), newer_of_warps);
#pragma unroll
  for (int i = 0; i < sliding_steps; ++i) {
    newer = thread.begins(i) ? Fold::none() : newer;
    if (thread.inside && first + i < tile.count) {
      const bool goes_on = (open >> static_cast<unsigned>(i) & 1U) != 0;
      const total whole = Fold::joined(goes_on ? Fold::joined(older[i], behind) : older[i], newer);
      output[cursor.index(tile.begin + first + i) + channel] =
          fold.result(whole, values[i], tile.position + first + i, launched.window);
    }
    newer = Fold::joined(newer, Fold::of(values[i]));
  }
}

/// Block `part` of `parts` that leave the state of the session whose last frame this is.
static __device__ inline void keep_history(const session_history<float>& history, std::int32_t frame, std::int64_t part,
                                           std::int64_t parts) {
  const session_frame& last = history.session.frames[frame];
  if (last.next >= 0) {
    return;
  }
  session_cursor<float> cursor{history, frame};
  const std::int64_t values = history.length * history.channels;
  for (std::int64_t value = part * block_threads + threadIdx.x; value < values; value += parts * block_threads) {
    const std::int64_t step = value / history.channels - history.length;
    const std::int64_t channel = value % history.channels;
    const float* const from = cursor.at(last.steps + step);
    history.kept(last, step)[channel] = from == nullptr ? 0.0F : from[channel];
  }
}

template <class Fold, int Lanes, class Out>
__global__ void __launch_bounds__(block_threads)
    slide_windows(const __grid_constant__ sliding_launch launched, const Fold fold, Out* __restrict__ output) {
  const auto item = static_cast<std::int64_t>(blockIdx.x);
  if (item >= launched.fold_blocks) {
    const std::int64_t kept = item - launched.fold_blocks;
    keep_history(launched.history, static_cast<std::int32_t>(kept / launched.keep_blocks), kept % launched.keep_blocks,
                 launched.keep_blocks);
    return;
  }
  const std::int64_t group = item % launched.groups;
  const std::int64_t number = item / launched.groups % launched.tiles;
  const std::int64_t frame = item / launched.groups / launched.tiles;
  const sliding_tile tile = find_tile(launched.history.session.frames, static_cast<std::int32_t>(frame), number,
                                      session_block<Lanes>::threads * sliding_steps);
  if (tile.count > 0) {
    fold_tile<Fold, Lanes>(launched, tile, group * Lanes + session_block<Lanes>::lane(), fold, output);
  }
}

/// Enqueues the fold over each step of a batch, with the lanes that suit the channels. `Fold` has, for the device:
///   total                               what it knows of some steps
///   static float absent()               the value of a step before the session's start
///   static total none()                 of no steps: joined with it, a total stays what it is
///   static total of(float)              of one step
///   static total of(const float (&)[sliding_steps], int)  of the first so many
///   static total joined(total, total)   in any order
///   static total moved(total, move)     with move(number) for each number in it
///   Out result(total, float current, std::int64_t position, std::int64_t window) const
/// `current` is the step's own value where the window is without it.
template <class Fold, class Out>
fault enqueue_sliding(void* stream, const sliding_window& window, const operation_arguments& arguments,
                      Fold fold) noexcept {
  const batch_extent& extent = arguments.extent;
  sliding_launch launched;
  launched.history = window.history(arguments);
  launched.window = window.length;
  launched.current = window.with_current ? 1 : 0;
  const std::int64_t channels = launched.history.channels;
  const int lanes = window.whole_frames && channels >= warp_threads ? warp_threads : lanes_for(channels);
  const std::int64_t tile = block_threads / lanes * sliding_steps;
  launched.tiles = divide_up(std::max<std::int64_t>(window.steps(extent), 1) - 1, tile) + 1;
  launched.groups = divide_up(channels, lanes);
  launched.fold_blocks = extent.frames * launched.tiles * launched.groups;
  launched.keep_blocks =
      std::min(divide_up(launched.history.length * channels, block_threads * sliding_copies), most_keep_blocks);
  const std::int64_t blocks = launched.fold_blocks + extent.frames * launched.keep_blocks;
  const auto enqueue = [&](auto kernel) {
    return launch(stream, dim3(static_cast<unsigned>(blocks)), dim3(block_threads), kernel, launched, fold,
                  static_cast<Out*>(arguments.output));
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

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/launch.cuh"
#include "kernels/pack.cuh"
#include "kernels/session.cuh"
#include "kernels/session.hpp"
#include "kernels/sliding_window.hpp"

namespace penstock {

/// A thread's share of the older or newer part of a window. `cut`: a stretch begins or ends in it, so that nothing
/// beyond it belongs to the part.
template <class Fold>
struct sliding_part {
  typename Fold::total total;
  bool cut;

  /// Joins it with what lies beyond it.
  __device__ __forceinline__ void extend(const sliding_part& beyond) {
    if (!cut) {
      total = Fold::joined(total, beyond.total);
      cut = beyond.cut;
    }
  }
};

/// Total beyond each thread's part, up to the next cut: of the later steps if `Later`, else of the earlier ones.
/// `outside` is the total beyond all threads.
template <class Fold, int Lanes, bool Later>
__device__ typename Fold::total beyond(sliding_part<Fold> part, const typename Fold::total& outside,
                                       sliding_part<Fold> (&warp_parts)[block_warps][Lanes]) {
  using block = session_block<Lanes>;
  const int others = Later ? block::warp_steps - 1 - block::place_in_warp() : block::place_in_warp();
  const auto shifted = [](const sliding_part<Fold>& source, int distance) {
    const auto move = [distance](auto value) {
      return Later ? __shfl_down_sync(~0U, value, distance) : __shfl_up_sync(~0U, value, distance);
    };
    return sliding_part<Fold>{Fold::moved(source.total, move), move(static_cast<int>(source.cut)) != 0};
  };
#pragma unroll
  for (int distance = 1; distance < block::warp_steps; distance *= 2) {
    const sliding_part<Fold> other = shifted(part, distance * Lanes);
    if (others >= distance) {
      part.extend(other);
    }
  }
  if (others == block::warp_steps - 1) {
    warp_parts[block::warp()][block::lane()] = part;
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
    result.extend(warp_parts[warp][block::lane()]);
  }
  result.extend({outside, true});
  return result.total;
}

/// The total over all threads of a lane, in each of them.
template <class Fold, int Lanes>
__device__ typename Fold::total over_block(typename Fold::total total,
                                           typename Fold::total (&warp_parts)[block_warps][Lanes]) {
  using block = session_block<Lanes>;
#pragma unroll
  for (int distance = 1; distance < block::warp_steps; distance *= 2) {
    total = Fold::joined(
        total, Fold::moved(total, [distance](auto value) { return __shfl_xor_sync(~0U, value, distance * Lanes); }));
  }
  if (block::place_in_warp() == 0) {
    warp_parts[block::warp()][block::lane()] = total;
  }
  __syncthreads();
  total = Fold::none();
  for (int warp = 0; warp < block::warps(); ++warp) {
    total = Fold::joined(total, warp_parts[warp][block::lane()]);
  }
  return total;
}

/// Steps that each thread folds.
inline constexpr int sliding_steps = 8;

/// Steps of one load or store, if they are contiguous.
inline constexpr int sliding_pack = 4;

template <int Width, class T>
[[nodiscard]] __device__ __forceinline__ bool aligned_for(const T* place) {
  return reinterpret_cast<std::uintptr_t>(place) % (Width * sizeof(T)) == 0;
}

/// The steps that a block folds: a stretch of a session that begins at a multiple of the length of a tile. The leading
/// frame is the one in which it begins, or the first of the session in this batch; its block also folds the steps of
/// the tile in the following frames.
struct sliding_tile {
  std::int32_t frame = 0;     ///< the leading frame
  std::int64_t begin = 0;     ///< the first step, counted from that frame's first
  std::int32_t count = 0;     ///< 0: nothing to do
  std::int64_t position = 0;  ///< of the first step in the session
};

/// Tile `number` of those that the frame may lead.
[[nodiscard]] static __device__ inline sliding_tile find_tile(const session_frame* frames, std::int32_t frame,
                                                              std::int64_t number, std::int64_t length) {
  const session_frame& entry = frames[frame];
  const std::int64_t tile = entry.position / length + number;
  const std::int64_t first = max(tile * length, entry.position);
  const bool continues = entry.previous < 0 && number == 0;
  const bool begins = tile * length >= entry.position && tile * length < entry.position + entry.steps;
  if (!continues && !begins) {
    return {};
  }
  const std::int64_t begin = first - entry.position;
  const std::int64_t most = (tile + 1) * length - entry.position;
  std::int64_t end = entry.steps;
  for (std::int32_t next = entry.next; next >= 0 && end < most; next = frames[next].next) {
    end += frames[next].steps;
  }
  return {frame, begin, static_cast<std::int32_t>(max(min(end, most) - begin, std::int64_t{0})), first};
}

/// Maximum tiles of `length` steps that a frame of `steps` steps leads. If all frames have equal length, they begin at
/// multiples of it.
[[nodiscard]] inline std::int64_t max_tiles(std::int64_t steps, std::int64_t length, bool all_alike) noexcept {
  if (all_alike && (length % steps == 0 || steps % length == 0)) {
    return divide_up(steps, length);
  }
  return divide_up(std::max<std::int64_t>(steps, 1) - 1, length) + 1;
}

/// Totals of both parts of a window, and their pivots; see Fold at enqueue_sliding.
template <class Fold>
struct window_halves {
  typename Fold::total older, newer;
  float older_pivot, newer_pivot;
  int newer_count;  ///< steps of the newer part; the older one has the rest of the window
};

/// One thread's steps of a tile: `first` … first + sliding_steps − 1 of it, in one channel. Stretches begin at the
/// tile's first step and are of the window's length.
template <class Fold>
class sliding_thread {
 public:
  using total = typename Fold::total;

  __device__ sliding_thread(session_cursor<float>& cursor, std::int64_t channel, bool inside, int first,
                            std::int32_t window)
      : cursor_(cursor), channel_(channel), inside_(inside), phase_(first % window), window_(window) {
    for (int step = phase_ == 0 ? 0 : window - phase_; step <= sliding_steps; step += window) {
      begins_ |= 1U << static_cast<unsigned>(step);
    }
  }

  [[nodiscard]] __device__ bool inside() const { return inside_; }
  /// Index of this thread's first step in its stretch.
  [[nodiscard]] __device__ std::int32_t phase() const { return phase_; }
  /// Whether a stretch begins with step i of this thread, 0 … sliding_steps.
  [[nodiscard]] __device__ __forceinline__ bool begins(int i) const {
    return (begins_ >> static_cast<unsigned>(i) & 1U) != 0;
  }

  /// The value at `step`, counted as the cursor does; absent where there is none.
  [[nodiscard]] __device__ __forceinline__ float value(std::int64_t step, bool wanted) const {
    const float* const channels = inside_ && wanted ? cursor_.at(step) : nullptr;
    return channels == nullptr ? Fold::absent() : channels[channel_];
  }
  /// `count` values from `step` on; absent ones behind them.
  __device__ __forceinline__ void load(std::int64_t step, std::int32_t count, float (&values)[sliding_steps]) const {
    const std::int64_t channels = cursor_.channels();
    if (inside_ && count >= sliding_steps && cursor_.run(step, sliding_steps) == sliding_steps) {
      const float* const source = cursor_.at(step);
      if (source != nullptr) {
        if (channels == 1 && aligned_for<sliding_pack>(source)) {
#pragma unroll
          for (int at = 0; at < sliding_steps; at += sliding_pack) {
            const pack<float, sliding_pack> read = load_pack<sliding_pack>(source + at);
            memcpy(values + at, &read, sizeof(read));
          }
          return;
        }
#pragma unroll
        for (int i = 0; i < sliding_steps; ++i) {
          values[i] = source[i * channels + channel_];
        }
        return;
      }
    }
#pragma unroll
    for (int i = 0; i < sliding_steps; ++i) {
      values[i] = value(step + i, i < count);
    }
  }

  /// Stores `count` results of the steps from `step` on.
  template <class Out>
  __device__ __forceinline__ void store(std::int64_t step, std::int32_t count, const Out (&results)[sliding_steps],
                                        Out* __restrict__ output) const {
    if (!inside_ || count <= 0) {
      return;
    }
    Out* const destination = output + cursor_.index(step);
    if (cursor_.channels() == 1 && count >= sliding_steps && cursor_.run(step, sliding_steps) == sliding_steps &&
        aligned_for<sliding_pack>(destination)) {
#pragma unroll
      for (int at = 0; at < sliding_steps; at += sliding_pack) {
        pack<Out, sliding_pack> written;
        memcpy(&written, results + at, sizeof(written));
        store_pack<sliding_pack>(destination + at, written);
      }
      return;
    }
#pragma unroll
    for (int i = 0; i < sliding_steps; ++i) {
      if (i < count) {
        output[cursor_.index(step + i) + channel_] = results[i];
      }
    }
  }

  /// Totals of the windows that begin in this thread over its own steps. Bit i of `open` tells that window i continues
  /// in later threads. `count` of the `values` are valid; `pivot` is the pivot of the last stretch, and `pivots` get
  /// those of all windows.
  __device__ __forceinline__ sliding_part<Fold> older_parts(const float (&values)[sliding_steps], std::int32_t count,
                                                            float pivot, total (&older)[sliding_steps],
                                                            float (&pivots)[sliding_steps], unsigned& open) const {
    sliding_part<Fold> part{Fold::none(), false};
    open = 0;
#pragma unroll
    for (int i = sliding_steps - 1; i >= 0; --i) {
      if (begins(i + 1)) {
        part = {Fold::none(), true};
        pivot = values[i];
      }
      if (i < count) {
        part.total = Fold::joined(part.total, Fold::of(values[i], pivot));
      }
      older[i] = part.total;
      pivots[i] = pivot;
      open |= part.cut ? 0U : 1U << static_cast<unsigned>(i);
    }
    return part;
  }

  /// Total of this thread's steps for windows that end in later threads. `pivot` is the pivot of its first stretch.
  __device__ __forceinline__ sliding_part<Fold> newer_part(const float (&values)[sliding_steps], float pivot) const {
    sliding_part<Fold> part{Fold::none(), false};
#pragma unroll
    for (int i = 0; i < sliding_steps; ++i) {
      if (begins(i)) {
        part = {Fold::none(), true};
        pivot = values[i];
      }
      part.total = Fold::joined(part.total, Fold::of(values[i], pivot));
    }
    return part;
  }

 private:
  session_cursor<float>& cursor_;
  std::int64_t channel_;
  bool inside_;  // whether there is such a channel
  std::int32_t phase_;
  std::int32_t window_;
  unsigned begins_ = 0;  // bit i: a stretch begins with step i
};

/// Maximum window whose frames are read anew for each frame.
inline constexpr std::int64_t max_recent_frames = 32;
/// Loads that a thread has in flight.
inline constexpr int recent_at_once = 8;

/// Folds each frame with the `window` − 1 frames before it, `Width` neighbouring elements a thread, and writes the new
/// state from the frames it has read. It reads the state once, where tiles read it twice.
template <class Fold, int Width, class Out>
__global__ void __launch_bounds__(block_threads)
    fold_recent_frames(const __grid_constant__ session_history<float> history, const std::int32_t window,
                       const Fold fold, Out* __restrict__ output) {
  const auto frame = static_cast<std::int32_t>(blockIdx.x);
  const std::int64_t channel = (static_cast<std::int64_t>(blockIdx.y) * blockDim.x + threadIdx.x) * Width;
  if (channel >= history.channels) {
    return;
  }
  const session_frame entry = history.session.frames[frame];
  session_cursor<float> cursor{history, frame};
  using values = pack<float, Width>;
  const auto keep = [&](std::int32_t back, const values& read) {
    if (entry.next < 0 && back < history.length) {
      store_pack<Width>(history.kept(entry, -1 - back) + channel, read);
    }
  };
  const values current = load_pack<Width>(history.input + frame * history.pitch + channel);
  window_halves<Fold> halves[Width];
#pragma unroll
  for (int component = 0; component < Width; ++component) {
    halves[component] = {Fold::of(current.at[component], 0.0F), Fold::none(), 0.0F, 0.0F, 0};
  }
  for (std::int32_t back = 1; back < window; back += recent_at_once) {
    values read[recent_at_once];
    bool there[recent_at_once];
#pragma unroll
    for (int each = 0; each < recent_at_once; ++each) {
      const float* const source = back + each < window ? cursor.at(-back - each) : nullptr;
      there[each] = source != nullptr;
      read[each] = there[each] ? load_pack<Width>(source + channel) : values{};
    }
#pragma unroll
    for (int each = 0; each < recent_at_once; ++each) {
      keep(back + each, read[each]);
#pragma unroll
      for (int component = 0; component < Width; ++component) {
        const float value = there[each] ? read[each].at[component] : Fold::absent();
        halves[component].older = Fold::joined(halves[component].older, Fold::of(value, 0.0F));
      }
    }
  }
  keep(0, current);
  pack<Out, Width> results;
#pragma unroll
  for (int component = 0; component < Width; ++component) {
    results.at[component] = fold.result(halves[component], current.at[component], entry.position, window);
  }
  store_pack<Width>(output + frame * history.pitch + channel, results);
}

/// For whole frames and windows of at most max_recent_frames. `Fold` as enqueue_sliding has it, without a pivot.
template <class Fold, class Out>
fault enqueue_recent_frames(void* stream, const sliding_window& window, const operation_arguments& arguments,
                            Fold fold) noexcept {
  constexpr int wide = 4;
  const session_history<float> history = window.history(arguments);
  const auto enqueue = [&](auto kernel, std::int64_t width) {
    const std::int64_t packs = history.channels / width;
    const int threads = threads_for(packs);
    const dim3 grid(static_cast<unsigned>(arguments.extent.frames), static_cast<unsigned>(divide_up(packs, threads)));
    return launch(stream, grid, dim3(static_cast<unsigned>(threads)), kernel, history,
                  static_cast<std::int32_t>(window.length), fold, static_cast<Out*>(arguments.output));
  };
  return history.channels % wide == 0 ? enqueue(&fold_recent_frames<Fold, wide, Out>, wide)
                                      : enqueue(&fold_recent_frames<Fold, 1, Out>, 1);
}

/// Arguments of slide_windows: first the blocks that fold, then those that write the new states, if these are too large
/// for the former.
struct sliding_launch {
  session_history<float> history;
  std::int64_t window = 1;
  std::int64_t current = 0;  ///< 1 where the window ends with the step itself
  std::int64_t tiles = 1;    ///< of each frame, at most
  std::int64_t groups = 1;   ///< of channels
  std::int64_t fold_blocks = 1;
  std::int64_t keep_blocks = 0;  ///< of each frame
};

/// Maximum blocks that write one state, and maximum rounds in which a folding block copies its part of it.
inline constexpr std::int64_t max_keep_blocks = 64;
inline constexpr std::int64_t kept_rounds = 2;

/// Folds the windows of one tile. For its step k, the older part of the window is steps k … to the end of the stretch
/// that k is in, one window earlier; the newer part is the steps of the stretch before k.
template <class Fold, int Lanes, class Out>
__device__ void fold_tile(const sliding_launch& launched, const sliding_tile& tile, std::int64_t channel,
                          const Fold& fold, Out* __restrict__ output) {
  using total = typename Fold::total;
  using block = session_block<Lanes>;
  __shared__ total warp_rests[block_warps][Lanes];
  __shared__ sliding_part<Fold> warp_older[block_warps][Lanes];
  __shared__ sliding_part<Fold> warp_newer[block_warps][Lanes];

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
  // The last step of the stretch of this thread's last step.
  const int last = first + sliding_steps - 1 - (thread.phase() + sliding_steps - 1) % window + window - 1;
  const float older_pivot = Fold::pivoted ? thread.value(oldest + last, last < end) : 0.0F;
  thread.load(oldest + first, end - first, values);
  const sliding_part<Fold> thread_part =
      thread.older_parts(values, end - first, older_pivot, older, older_pivots, open);

  // The total that all windows of the last stretch share, if it is longer than the tile.
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
    rest = over_block<Fold, Lanes>(rest, warp_rests);
  }
  const total behind = beyond<Fold, Lanes, true>(thread_part, rest, warp_older);

  const auto current = static_cast<std::int32_t>(launched.current);
  const std::int32_t stretch = first - thread.phase();
  window_halves<Fold> halves;
  halves.newer_pivot =
      Fold::pivoted ? thread.value(tile.begin + current + stretch, stretch < tile.count - current) : 0.0F;
  halves.newer_count = thread.phase();
  thread.load(tile.begin + current + first, tile.count - current - first, values);
  halves.newer = beyond<Fold, Lanes, false>(thread.newer_part(values, halves.newer_pivot), Fold::none(), warp_newer);
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
///                                       of the steps in the total shares with every other; else the pivot is 0
///   total                               the total of some steps
///   static float absent()               the value of a step before the session's start
///   static total none()                 of no steps: joined with it, a total stays what it is
///   static total of(float, float pivot) of one step
///   static total joined(total, total)   in any order; of one pivot
///   static total moved(total, move)     with move(number) for each number in it
///   Out result(window_halves, float current, std::int64_t position, std::int64_t window) const
/// `current` is the value of the step itself, for windows that exclude it. The newer part may be empty; its pivot is
/// then not of the window.
template <class Fold, class Out>
fault enqueue_sliding(void* stream, const sliding_window& window, const operation_arguments& arguments,
                      Fold fold) noexcept {
  if constexpr (!Fold::pivoted) {
    if (window.whole_frames && window.length <= max_recent_frames &&
        divide_up(window.channels(), block_threads) <= max_grid_rows) {
      return enqueue_recent_frames<Fold, Out>(stream, window, arguments, fold);
    }
  }
  const batch_extent& extent = arguments.extent;
  sliding_launch launched;
  launched.history = window.history(arguments);
  launched.window = window.length;
  launched.current = window.includes_current ? 1 : 0;
  const std::int64_t channels = launched.history.channels;
  const int lanes = window.whole_frames && channels >= warp_threads ? warp_threads : lanes_for(channels);
  // Tiles begin at the same steps of a session in every batch, however it is cut into frames.
  const std::int64_t span = window.whole_frames ? window.length : std::max(window.input.shape.front(), window.length);
  const int threads = threads_for(divide_up(span, sliding_steps) * lanes);
  launched.tiles =
      max_tiles(window.steps(extent), threads / lanes * sliding_steps, window.whole_frames || !window.input.variable);
  launched.groups = divide_up(channels, lanes);
  launched.fold_blocks = extent.frames * launched.tiles * launched.groups;
  const std::int64_t kept = launched.history.length * channels;
  const std::int64_t at_once = std::int64_t{elements_at_once} * threads;
  if (kept > launched.groups * at_once * kept_rounds) {
    launched.keep_blocks = std::min(divide_up(kept, at_once), max_keep_blocks);
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

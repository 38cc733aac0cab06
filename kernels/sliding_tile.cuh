#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/launch.cuh"
#include "kernels/pack.cuh"
#include "kernels/session_block.cuh"
#include "kernels/session_cursor.hpp"
#include "kernels/sliding_scan.cuh"

namespace penstock {

/// Steps that each thread folds.
inline constexpr int sliding_steps = 8;

/// Steps that it reads or writes at once where they lie together.
inline constexpr int sliding_pack = 4;

template <int Width, class T>
[[nodiscard]] __device__ __forceinline__ bool aligned_for(const T* place) {
  return reinterpret_cast<std::uintptr_t>(place) % (Width * sizeof(T)) == 0;
}

/// Which steps a block folds: a stretch of a session's steps that begins at a multiple of the tile's length. The frame
/// in which it begins, or with which the session continues in this batch, leads it: its block does the tile's steps in
/// the frames that follow, too.
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

/// Tiles of `length` steps that a frame of `steps` could lead. Where all are of so many, they begin at multiples of it.
[[nodiscard]] inline std::int64_t most_tiles(std::int64_t steps, std::int64_t length, bool all_alike) noexcept {
  if (all_alike && (length % steps == 0 || steps % length == 0)) {
    return divide_up(steps, length);
  }
  return divide_up(std::max<std::int64_t>(steps, 1) - 1, length) + 1;
}

/// What both parts of a window are, and how they were folded: see Fold in sliding_window.cuh.
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
  /// Of the step that is step 0 of this thread: its place in its stretch.
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
      const float* const from = cursor_.at(step);
      if (from != nullptr) {
        if (channels == 1 && aligned_for<sliding_pack>(from)) {
#pragma unroll
          for (int at = 0; at < sliding_steps; at += sliding_pack) {
            const pack<float, sliding_pack> read = load_pack<sliding_pack>(from + at);
            memcpy(values + at, &read, sizeof(read));
          }
          return;
        }
#pragma unroll
        for (int i = 0; i < sliding_steps; ++i) {
          values[i] = from[i * channels + channel_];
        }
        return;
      }
    }
#pragma unroll
    for (int i = 0; i < sliding_steps; ++i) {
      values[i] = value(step + i, i < count);
    }
  }

  /// Leaves `count` results of the steps from `step` on.
  template <class Out>
  __device__ __forceinline__ void store(std::int64_t step, std::int32_t count, const Out (&results)[sliding_steps],
                                        Out* __restrict__ output) const {
    if (!inside_ || count <= 0) {
      return;
    }
    Out* const to = output + cursor_.index(step);
    if (cursor_.channels() == 1 && count >= sliding_steps && cursor_.run(step, sliding_steps) == sliding_steps &&
        aligned_for<sliding_pack>(to)) {
#pragma unroll
      for (int at = 0; at < sliding_steps; at += sliding_pack) {
        pack<Out, sliding_pack> written;
        memcpy(&written, results + at, sizeof(written));
        store_pack<sliding_pack>(to + at, written);
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

  /// Of the windows that begin in this thread, what of it lies here; bit i of `open` says that window i goes on in the
  /// threads behind. Of the `values`, `count` are there; `pivot` is that of the stretch that the last one is in, and
  /// becomes that of each window.
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

  /// What this thread's steps give to the windows of the steps behind them. `pivot` is that of the first one's stretch.
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

}  // namespace penstock

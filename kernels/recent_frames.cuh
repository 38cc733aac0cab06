#pragma once

#include <cstdint>

#include "kernels/launch.cuh"
#include "kernels/pack.cuh"
#include "kernels/session_cursor.hpp"
#include "kernels/sliding_tile.cuh"
#include "kernels/sliding_window.hpp"

namespace penstock {

/// The longest window whose frames are read anew for each frame.
inline constexpr std::int64_t most_recent_frames = 32;
/// Frames that a thread asks for before it waits for the first.
inline constexpr int recent_at_once = 8;

/// Folds each frame with the `window` − 1 before it, a thread `Width` neighbouring elements, and leaves those that it
/// has read for the next batch. With all of them at hand it goes over the state once, where a tile goes over it twice.
template <class Fold, int Width, class Out>
__global__ void __launch_bounds__(block_threads)
    fold_recent_frames(const __grid_constant__ session_history<float> history, const std::int32_t window,
                       const Fold fold, Out* __restrict__ output) {
  const auto frame = static_cast<std::int32_t>(blockIdx.x);
  const std::int64_t channel = (static_cast<std::int64_t>(blockIdx.y) * blockDim.x + threadIdx.x) * Width;
  if (channel >= history.channels) {
    return;
  }
  const session_frame of = history.session.frames[frame];
  session_cursor<float> cursor{history, frame};
  using values = pack<float, Width>;
  const auto keep = [&](std::int32_t back, const values& read) {
    if (of.next < 0 && back < history.length) {
      store_pack<Width>(history.kept(of, -1 - back) + channel, read);
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
      const float* const from = back + each < window ? cursor.at(-back - each) : nullptr;
      there[each] = from != nullptr;
      read[each] = there[each] ? load_pack<Width>(from + channel) : values{};
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
    results.at[component] = fold.result(halves[component], current.at[component], of.position, window);
  }
  store_pack<Width>(output + frame * history.pitch + channel, results);
}

/// For whole frames and windows of at most most_recent_frames. `Fold` as enqueue_sliding has it, without a pivot.
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

}  // namespace penstock

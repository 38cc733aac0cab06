#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/launch.cuh"
#include "kernels/session.hpp"

namespace penstock {

/// How the threads of a block share a session: `Lanes` neighbouring channels side by side, so that loads of a step are
/// contiguous; the other threads divide the steps. Lanes is a power of two, at most 32.
template <int Lanes>
struct session_block {
  static constexpr int threads = block_threads / Lanes;    ///< along the steps
  static constexpr int warp_steps = warp_threads / Lanes;  ///< of these, in one warp

  /// The channel of this thread in the block, and its index along the steps in the block and in the warp.
  [[nodiscard]] static __device__ int lane() { return static_cast<int>(threadIdx.x) % Lanes; }
  [[nodiscard]] static __device__ int place() { return static_cast<int>(threadIdx.x) / Lanes; }
  [[nodiscard]] static __device__ int place_in_warp() { return place() % warp_steps; }
  [[nodiscard]] static __device__ int warp() { return static_cast<int>(threadIdx.x) / warp_threads; }
  /// Warps of the block, which may have fewer threads than `block_threads`.
  [[nodiscard]] static __device__ int warps() { return static_cast<int>(blockDim.x) / warp_threads; }
};

/// Lanes for a number of channels: eight floats fill a memory sector of 32 bytes.
[[nodiscard]] constexpr int lanes_for(std::int64_t channels) noexcept {
  return channels >= 5 ? 8 : channels >= 3 ? 4 : static_cast<int>(std::max<std::int64_t>(channels, 1));
}

/// Loads that a thread of copy_elements has in flight.
inline constexpr int elements_at_once = 8;

/// Copies `count` elements of the history of a frame from element `first` on (see at_element). All threads of the block
/// call it.
template <class Element>
__device__ __forceinline__ void copy_elements(const session_history<Element>& history, std::int32_t frame,
                                              std::int64_t first, int count, Element* destination) {
  const int thread = static_cast<int>(threadIdx.x);
  const int threads = static_cast<int>(blockDim.x);
  if (thread >= count) {
    return;
  }
  const int earlier = first < 0 ? static_cast<int>(min(-first, static_cast<std::int64_t>(count))) : 0;
  const Element* const source = history.input + frame * history.pitch + first;
  Element read[elements_at_once];
  const auto ask = [&](int place) {
    const Element* each_source = source + place;
#pragma unroll
    for (int each = 0; each < elements_at_once; ++each, each_source += threads) {
      if (place + each * threads < count) {
        read[each] = *each_source;
      }
    }
  };
  const auto write = [&](int place) {
    Element* each_destination = destination + place;
#pragma unroll
    for (int each = 0; each < elements_at_once; ++each, each_destination += threads) {
      if (place + each * threads < count) {
        *each_destination = read[each];
      }
    }
  };
  int place = earlier + thread;
  ask(place);
  for (int before = thread; before < earlier; before += threads) {
    destination[before] = history.at_element(frame, first + before);
  }
  while (true) {
    write(place);
    place += elements_at_once * threads;
    if (place >= count) {
      return;
    }
    ask(place);
  }
}

/// Parts into which keep_part divides the state of one session.
[[nodiscard]] inline std::int64_t keep_parts(std::int64_t length, std::int64_t channels) noexcept {
  return divide_up(length * channels, std::int64_t{elements_at_once} * block_threads);
}

/// Writes part `part` of `parts` of the new state, the last `length` steps, if the frame is the last of its session in
/// this batch. All threads of the block call it.
template <class Element>
__device__ __forceinline__ void keep_part(const session_history<Element>& history, std::int32_t frame,
                                          std::int64_t part, std::int64_t parts) {
  const session_frame& entry = history.session.frames[frame];
  if (entry.next >= 0) {
    return;
  }
  const std::int64_t elements = history.length * history.channels;
  const std::int64_t part_elements = parts == 1 ? elements : divide_up(elements, parts);
  const std::int64_t first = part * part_elements;
  const std::int64_t count = min(part_elements, elements - first);
  if (count > 0) {
    copy_elements(history, frame, (entry.steps - history.length) * history.channels + first, static_cast<int>(count),
                  history.kept(entry, -history.length) + first);
  }
}

}  // namespace penstock

#pragma once

#include <cstdint>

#include "kernels/launch.cuh"
#include "kernels/session_history.hpp"

namespace penstock {

/// Elements that a thread of copy_elements asks for before it waits for the first.
inline constexpr int elements_at_once = 8;

/// Called by a whole block: copies `count` elements of the frame's history from `first` on (see at_element).
template <class Element>
__device__ __forceinline__ void copy_elements(const session_history<Element>& history, std::int32_t frame,
                                              std::int64_t first, int count, Element* to) {
  const int thread = static_cast<int>(threadIdx.x);
  const int threads = static_cast<int>(blockDim.x);
  const int earlier = first < 0 ? static_cast<int>(min(-first, static_cast<std::int64_t>(count))) : 0;
  const Element* const from = history.input + frame * history.pitch + first;
  Element read[elements_at_once];
  const auto ask = [&](int place) {
    const Element* each_from = from + place;
#pragma unroll
    for (int each = 0; each < elements_at_once; ++each, each_from += threads) {
      if (place + each * threads < count) {
        read[each] = *each_from;
      }
    }
  };
  const auto write = [&](int place) {
    Element* each_to = to + place;
#pragma unroll
    for (int each = 0; each < elements_at_once; ++each, each_to += threads) {
      if (place + each * threads < count) {
        *each_to = read[each];
      }
    }
  };
  int place = earlier + thread;
  ask(place);
  for (int before = thread; before < earlier; before += threads) {
    to[before] = history.at_element(frame, first + before);
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

/// The parts that keep_part wants for the state of one session.
[[nodiscard]] inline std::int64_t keep_parts(std::int64_t length, std::int64_t channels) noexcept {
  return divide_up(length * channels, std::int64_t{elements_at_once} * block_threads);
}

/// Called by a whole block: leaves part `part` of `parts` of the last `length` steps of the frame's session for the
/// next batch, where the frame is the session's last of this one.
template <class Element>
__device__ __forceinline__ void keep_part(const session_history<Element>& history, std::int32_t frame,
                                          std::int64_t part, std::int64_t parts) {
  const session_frame& of = history.session.frames[frame];
  if (of.next >= 0) {
    return;
  }
  const std::int64_t elements = history.length * history.channels;
  const std::int64_t of_part = parts == 1 ? elements : divide_up(elements, parts);
  const std::int64_t first = part * of_part;
  const std::int64_t count = min(of_part, elements - first);
  if (count > 0) {
    copy_elements(history, frame, (of.steps - history.length) * history.channels + first, static_cast<int>(count),
                  history.kept(of, -history.length) + first);
  }
}

}  // namespace penstock

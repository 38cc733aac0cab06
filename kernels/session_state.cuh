#pragma once

#include <cstdint>

#include "kernels/launch.cuh"
#include "kernels/session_history.hpp"

namespace penstock {

/// The blocks that keep_part wants for the state of one session.
[[nodiscard]] inline std::int64_t keep_parts(std::int64_t length, std::int64_t channels) noexcept {
  return divide_up(length * channels, std::int64_t{8} * block_threads);
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
  const std::int64_t first = (of.steps - history.length) * history.channels;
  Element* const to = history.kept(of, -history.length);
  const std::int64_t count = history.length * history.channels;
  for (std::int64_t index = part * block_threads + threadIdx.x; index < count; index += parts * block_threads) {
    to[index] = history.at_element(frame, first + index);
  }
}

}  // namespace penstock

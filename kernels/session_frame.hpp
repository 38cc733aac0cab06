#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/callable_from_kernels.hpp"

namespace penstock {

/// One frame of a batch as a stage that keeps state sees it. A step is one index of the first dimension of the stage's
/// input (or the whole frame, see session_traits); what stands in the dimensions behind it are channels.
///
/// The frames of a session in one batch are linked in their order. The first of them (previous == −1) continues from
/// the session's state as the batch before left it, in the half `half`; the last (next == −1) leaves the new state in
/// the other half, so that no frame overwrites what another of the same launch still reads.
///
/// A state is never cleared: at position 0 there is nothing before the frame, whatever the memory holds, and at
/// position p only the last p steps are there.
struct session_frame {
  std::int64_t position;  ///< steps of the stage's input that the session had before this frame
  std::int32_t steps;     ///< of this frame: its leading extent, at most batch_extent::leading
  std::int32_t produced;  ///< steps of output that it gives: rate.total(position + steps) − rate.total(position)
  std::int32_t previous;  ///< index in the batch of the session's frame before it, −1: the state
  std::int32_t next;      ///< index in the batch of the session's frame behind it, −1: the state
  std::int32_t place;     ///< the session's place in the pool
  std::int32_t half;      ///< the half of its state to be read: 0 or 1
};
static_assert(sizeof(session_frame) == 32);

/// What a run of an operation that keeps state has beside its inputs. All of it is memory of the device.
struct session_arguments {
  const session_frame* frames = nullptr;  ///< one for each frame of the batch
  std::byte* pool = nullptr;              ///< aligned to 256 bytes
  std::size_t stride = 0;                 ///< bytes from one half to the next, a multiple of 256

  /// Where a session's half begins: state_bytes() bytes, aligned to 256.
  [[nodiscard]] PENSTOCK_HOST_DEVICE std::byte* half(std::int32_t place, std::int32_t which) const noexcept {
    return pool + (2 * static_cast<std::size_t>(place) + static_cast<std::size_t>(which)) * stride;
  }
};

}  // namespace penstock

#pragma once

#include <cstdint>

#include "kernels/callable_from_kernels.hpp"
#include "kernels/session_frame.hpp"

namespace penstock {

/// A stage's input as one endless row of steps, for operators that look back a fixed number of steps: this frame, the
/// frames before it in the batch, then what the state kept. Elements before the session's start are zero.
///
/// The state is the last `length` steps, the newest at its end; of a session that had fewer, only so many are valid.
template <class Element>
struct session_history {
  const Element* input = nullptr;
  session_arguments session;
  std::int64_t pitch = 0;     ///< elements from one frame of the batch to the next
  std::int64_t channels = 1;  ///< elements of a step
  std::int64_t length = 0;    ///< steps that the state keeps

  [[nodiscard]] static std::size_t state_bytes(std::int64_t length, std::int64_t channels) noexcept {
    return static_cast<std::size_t>(length * channels) * sizeof(Element);
  }

  /// Step `step` of the frame, −length … steps − 1; a negative one is that many before the frame's first.
  [[nodiscard]] PENSTOCK_HOST_DEVICE Element at(std::int32_t frame, std::int64_t step,
                                                std::int64_t channel) const noexcept {
    while (step < 0) {
      const session_frame& of = session.frames[frame];
      if (of.position + step < 0) {
        return Element{};
      }
      if (of.previous < 0) {
        const auto* const kept = reinterpret_cast<const Element*>(session.half(of.place, of.half));
        return kept[(length + step) * channels + channel];
      }
      frame = of.previous;
      step += session.frames[frame].steps;
    }
    return input[frame * pitch + step * channels + channel];
  }

  /// The same by one index through the steps and their channels: step · channels + channel. No division on the way to
  /// what the frame has itself.
  [[nodiscard]] PENSTOCK_HOST_DEVICE Element at_element(std::int32_t frame, std::int64_t index) const noexcept {
    if (index >= 0) {
      return input[frame * pitch + index];
    }
    const std::int64_t step = (index - channels + 1) / channels;
    return at(frame, step, index - step * channels);
  }

  /// Where step `step` (−length … −1, counted from the end of the session's last frame of this batch) is to be left
  /// for the next batch. Leave every step and channel, also of a session that had fewer.
  [[nodiscard]] PENSTOCK_HOST_DEVICE Element* kept(const session_frame& last, std::int64_t step) const noexcept {
    return reinterpret_cast<Element*>(session.half(last.place, 1 - last.half)) + (length + step) * channels;
  }
};

}  // namespace penstock

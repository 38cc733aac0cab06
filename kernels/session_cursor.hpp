#pragma once

#include <cstdint>

#include "kernels/session_frame.hpp"
#include "kernels/session_history.hpp"

namespace penstock {

/// A place among the steps of one session in one batch, for operators that go along them: from what the state kept,
/// through its frames in their order. Steps are counted from the first of the frame that it was set to; those before
/// it are negative, those behind it may lie in the frames that follow. To move to a near step is quick.
template <class Element>
class session_cursor {
 public:
  PENSTOCK_HOST_DEVICE session_cursor(const session_history<Element>& history, std::int32_t frame) noexcept
      : history_{history}, frame_{frame} {}

  /// Elements of a step.
  [[nodiscard]] PENSTOCK_HOST_DEVICE std::int64_t channels() const noexcept { return history_.channels; }
  /// Where the channels of a step begin; nullptr for one before the session's start. The state must have kept it, or
  /// it is one of this batch's.
  [[nodiscard]] PENSTOCK_HOST_DEVICE const Element* at(std::int64_t step) noexcept {
    while (step < first_) {
      const session_frame& of = history_.session.frames[frame_];
      if (of.previous < 0) {
        const std::int64_t before = step - first_;
        const auto* const kept = reinterpret_cast<const Element*>(history_.session.half(of.place, of.half));
        return of.position + before < 0 ? nullptr : kept + (history_.length + before) * history_.channels;
      }
      frame_ = of.previous;
      first_ -= history_.session.frames[frame_].steps;
    }
    return history_.input + index(step);
  }

  /// Where in the batch's elements a step of this batch begins.
  [[nodiscard]] PENSTOCK_HOST_DEVICE std::int64_t index(std::int64_t step) noexcept {
    while (step < first_) {
      frame_ = history_.session.frames[frame_].previous;
      first_ -= history_.session.frames[frame_].steps;
    }
    while (step >= first_ + history_.session.frames[frame_].steps) {
      first_ += history_.session.frames[frame_].steps;
      frame_ = history_.session.frames[frame_].next;
    }
    return frame_ * history_.pitch + (step - first_) * history_.channels;
  }

  /// How many steps from this one on, at most `most`, lie one behind the other in memory, or before the session.
  [[nodiscard]] PENSTOCK_HOST_DEVICE std::int64_t run(std::int64_t step, std::int64_t most) noexcept {
    static_cast<void>(at(step));
    const session_frame& of = history_.session.frames[frame_];
    const std::int64_t start = first_ - of.position;
    const std::int64_t end = step >= first_ ? first_ + of.steps : step < start ? start : first_;
    return end - step < most ? end - step : most;
  }

 private:
  const session_history<Element>& history_;
  std::int32_t frame_;
  std::int64_t first_ = 0;  ///< the step that frame_ begins with
};

}  // namespace penstock

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/session_history.hpp"

namespace penstock {

/// For the host: steps first … first + count − 1 of `frame` (a negative one is that many before its first, down to
/// −length) as the pieces of memory in which they lie, at most one a frame. Calls visit(from, offset, steps) for each:
/// `steps` steps that begin `offset` behind `first`, at `from`, or nullptr before the session's start.
template <class Element, class Visit>
void visit_runs(const session_history<Element>& history, std::int32_t frame, std::int64_t first, std::int64_t count,
                Visit&& visit) {
  std::int64_t end = first + count;
  while (end > first) {
    const session_frame& of = history.session.frames[frame];
    const std::int64_t begin = std::clamp<std::int64_t>(0, first, end);
    if (end > begin) {
      visit(history.input + frame * history.pitch + begin * history.channels, begin - first, end - begin);
      end = begin;
    }
    if (of.previous < 0) {
      break;
    }
    frame = of.previous;
    first += history.session.frames[frame].steps;
    end += history.session.frames[frame].steps;
  }
  if (end > first) {
    const session_frame& of = history.session.frames[frame];
    const std::int64_t begin = std::clamp(-of.position, first, end);
    const auto* const kept = reinterpret_cast<const Element*>(history.session.half(of.place, of.half));
    if (end > begin) {
      visit(kept + (history.length + begin) * history.channels, begin - first, end - begin);
    }
    if (begin > first) {
      visit(static_cast<const Element*>(nullptr), std::int64_t{0}, begin - first);
    }
  }
}

/// Copies these steps to `to`, zeros where they lie before the session's start.
template <class Element>
void copy_steps(const session_history<Element>& history, std::int32_t frame, std::int64_t first, std::int64_t count,
                Element* to) noexcept {
  visit_runs(history, frame, first, count, [&](const Element* from, std::int64_t offset, std::int64_t steps) {
    Element* const at = to + offset * history.channels;
    if (from == nullptr) {
      std::fill_n(at, steps * history.channels, Element{});
    } else {
      std::copy_n(from, steps * history.channels, at);
    }
  });
}

/// Leaves the last `length` steps of each session of the batch for the next one.
template <class Element>
void keep_steps(const session_history<Element>& history, std::int64_t frames) noexcept {
  for (std::int32_t index = 0; index < frames; ++index) {
    const session_frame& frame = history.session.frames[index];
    if (frame.next < 0) {
      copy_steps(history, index, frame.steps - history.length, history.length, history.kept(frame, -history.length));
    }
  }
}

}  // namespace penstock

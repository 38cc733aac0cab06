#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <vector>

#include "kernels/function_attributes.hpp"

namespace penstock {

/// Ratio of output steps to input steps, counted from the start of a session: ⌊(multiplier · n + offset) / divisor⌋
/// output steps after n input steps, and none where that is negative. A decimation by D gives an output at once and
/// then one for every D steps: {D, D − 1}. Frames of N steps are output when they are complete: {N, 0}. Frames of N
/// steps that begin at every H-th step: {H, H − N}, where nothing comes before the first is complete. L outputs for
/// every M steps, the first at once: {M, M − 1, L}.
struct step_rate {
  std::int64_t divisor = 1;
  std::int64_t offset = 0;      ///< at most divisor − 1
  std::int64_t multiplier = 1;  ///< has no factor in common with the divisor

  bool operator==(const step_rate&) const = default;
  /// Output steps after `taken` input steps.
  [[nodiscard]] PENSTOCK_HOST_DEVICE constexpr std::int64_t total(std::int64_t taken) const noexcept {
    const std::int64_t whole = taken / divisor * multiplier;
    const std::int64_t rest = taken % divisor * multiplier + offset;
    const std::int64_t given = whole + (rest >= 0 ? rest / divisor : -((divisor - 1 - rest) / divisor));
    return given > 0 ? given : 0;
  }
  /// Maximum output of `taken` consecutive input steps.
  [[nodiscard]] constexpr std::int64_t most(std::int64_t taken) const noexcept {
    return taken / divisor * multiplier + (taken % divisor * multiplier + divisor - 1) / divisor;
  }
  /// True if the first output steps of a session come later than their number says: its frames begin with fewer.
  [[nodiscard]] constexpr bool begins_late() const noexcept { return offset < 0; }
};

/// The rates of stages that follow one another.
class step_rates {
 public:
  step_rates() = default;
  step_rates(const step_rate& only) { *this = then(only); }  // NOLINT(google-explicit-constructor): one is a chain

  bool operator==(const step_rates&) const = default;
  [[nodiscard]] std::int64_t total(std::int64_t taken) const noexcept {
    for (const step_rate& each : chain_) {
      taken = each.total(taken);
    }
    return taken;
  }
  /// Upper bound of the output of `taken` consecutive input steps.
  [[nodiscard]] std::int64_t most(std::int64_t taken) const noexcept {
    for (const step_rate& each : chain_) {
      taken = each.most(taken);
    }
    return taken;
  }
  /// True if the number of output steps of a frame depends on its position in the session.
  [[nodiscard]] bool ragged() const noexcept { return period() != 1 || begins_late(); }
  [[nodiscard]] bool begins_late() const noexcept {
    return std::any_of(chain_.begin(), chain_.end(), [](const step_rate& each) { return each.begins_late(); });
  }
  /// The fewest input steps that give as many output steps wherever they begin, so that their multiples do too; behind
  /// the start of one that begins late.
  [[nodiscard]] std::int64_t period() const noexcept {
    std::int64_t taken = 1;
    std::int64_t given = 1;
    for (const step_rate& each : chain_) {
      const std::int64_t common = std::gcd(each.divisor, given);
      taken *= each.divisor / common;
      given = given / common * each.multiplier;
    }
    return taken;
  }
  /// Whether these followed by `next` count with numbers of at most `most_steps`.
  [[nodiscard]] bool may_precede(const step_rate& next) const {
    const step_rate last = chain_.empty() ? step_rate{} : chain_.back();
    if (!fits(last.divisor, next.divisor) || !fits(last.multiplier, next.multiplier) ||
        !fits(last.offset, next.multiplier) || !fits(last.divisor, next.offset)) {
      return false;
    }
    std::int64_t taken = 1;
    std::int64_t given = 1;
    const step_rates joined = then(next);
    return std::all_of(joined.chain_.begin(), joined.chain_.end(), [&](const step_rate& each) {
      const std::int64_t common = std::gcd(each.divisor, given);
      if (!fits(each.divisor, each.multiplier) || !fits(each.offset, 1) || !fits(taken, each.divisor / common) ||
          !fits(given / common, each.multiplier)) {
        return false;
      }
      taken *= each.divisor / common;
      given = given / common * each.multiplier;
      return true;
    });
  }
  /// These followed by `next`. Two are one where either is a decimation behind the other or a multiplication before it,
  /// ⌊(k·⌊(m·n + a) / d⌋ + b) / e⌋ = ⌊(k·m·n + k·a + d·b) / (d·e)⌋ for k = 1 or d = 1, and one without the common
  /// factor of its numbers.
  [[nodiscard]] step_rates then(const step_rate& next) const {
    step_rates made = *this;
    if (next == step_rate{}) {
      return made;
    }
    if (chain_.empty() || (next.multiplier != 1 && chain_.back().divisor != 1)) {
      made.chain_.push_back(next);
      return made;
    }
    const step_rate& last = chain_.back();
    const std::int64_t divisor = last.divisor * next.divisor;
    const std::int64_t multiplier = last.multiplier * next.multiplier;
    const std::int64_t offset = next.multiplier * last.offset + last.divisor * next.offset;
    const std::int64_t common = std::gcd(divisor, multiplier);
    made.chain_.back() = {.divisor = divisor / common,
                          .offset = offset >= 0 ? offset / common : -((common - 1 - offset) / common),
                          .multiplier = multiplier / common};
    if (made.chain_.back() == step_rate{}) {
      made.chain_.pop_back();
    }
    return made;
  }

  /// Far below what 64 bits count, so that no position in a session leaves them.
  static constexpr std::int64_t most_steps = std::int64_t{1} << 48;

 private:
  /// Whether the product of the two magnitudes is at most `most_steps`.
  [[nodiscard]] static bool fits(std::int64_t one, std::int64_t other) noexcept {
    return other == 0 || std::abs(one) <= most_steps / std::abs(other);
  }

  std::vector<step_rate> chain_;  ///< none of them is step_rate{}
};

/// How many steps of the pipeline's input so many indices of a dimension cover, without a common factor.
struct time_extent {
  std::int64_t steps = 1;  ///< 0: that dimension is not time but channels, bins or events
  std::int64_t indices = 1;

  bool operator==(const time_extent&) const = default;
  /// That of what an operator makes of its steps.
  [[nodiscard]] time_extent then(const step_rate& rate) const noexcept {
    const std::int64_t of_steps = std::gcd(steps, rate.multiplier);
    const std::int64_t of_indices = std::gcd(indices, rate.divisor);
    return steps == 0 ? *this
                      : time_extent{steps / of_steps * (rate.divisor / of_indices),
                                    indices / of_indices * (rate.multiplier / of_steps)};
  }
};

/// How an operator with state divides a session into steps.
struct session_traits {
  bool whole_frames = false;  ///< a step is a frame, not an index of `axis`
  step_rate rate;             ///< never with whole_frames; for a fixed input its extent is a multiple of the divisor
  /// Input steps between the last one that an output step needs and the one at which it stands: a filter's group delay,
  /// or all of a frame but its first step. 0 where it is not known.
  double delay = 0;
  /// Each frame gives one result of fixed shape, whatever its length: not steps. The rate is then 1.
  bool frame_results = false;
  std::size_t axis = 0;  ///< the dimension of the input that is time; 0 of a variable input
};

/// Where the time of a tensor lies among the steps of the pipeline's input. Of a tensor none of whose dimensions is
/// time, where the frame lies that it was made of.
struct step_timing {
  step_rates rate;       ///< between the input's steps and its own
  time_extent extent{};  ///< never of 0 steps
  double first = 0;      ///< where its index 0 stands, in steps of the pipeline's input

  /// That of what an operator makes of its steps. Its index i is complete with step ⌈((i + 1) · divisor − offset) /
  /// multiplier⌉ − 1; without the rounding, that is where it stands but for its delay.
  [[nodiscard]] step_timing then(const session_traits& traits) const {
    const step_rate& next = traits.rate;
    const double place = static_cast<double>(next.divisor - next.offset - 1) / static_cast<double>(next.multiplier);
    const double step = static_cast<double>(extent.steps) / static_cast<double>(extent.indices);
    return {rate.then(next), extent.then(next), first + (place - traits.delay) * step};
  }
  /// The input step at which the next index stands after `taken` input steps of the session. Rounded down.
  [[nodiscard]] std::int64_t next(std::int64_t taken) const noexcept {
    const std::int64_t index = rate.total(taken);
    const std::int64_t rest = index % extent.indices * extent.steps;
    const double fraction = static_cast<double>(rest % extent.indices) / static_cast<double>(extent.indices);
    constexpr double rounding = 1e-9;  // far below the distance of two places
    return index / extent.indices * extent.steps + rest / extent.indices +
           static_cast<std::int64_t>(std::floor(first + fraction + rounding));
  }
};

/// One frame of a batch, for an operator with state. A step is one index of the first dimension of the input, or a
/// whole frame (session_traits). The dimensions after it are channels.
///
/// The frames of a session in one batch form a list in order. The first (previous == −1) continues from the state that
/// the previous batch left in half `half`. The last (next == −1) writes the new state to the other half, so that no
/// frame overwrites what another frame of the launch still reads.
///
/// States are not cleared. At position 0 the state holds nothing, whatever is in memory; at position p only the last p
/// steps are valid.
struct session_frame {
  std::int64_t position;  ///< input steps of the session before this frame
  std::int32_t steps;     ///< of this frame, at most batch_extent::leading
  std::int32_t produced;  ///< output steps: rate.total(position + steps) − rate.total(position)
  std::int32_t previous;  ///< index of the session's previous frame in the batch; −1: none
  std::int32_t next;      ///< index of the session's next frame in the batch; −1: none
  std::int32_t place;     ///< the session's place in the pool
  std::int32_t half;      ///< half of the state to read: 0 or 1
};
static_assert(sizeof(session_frame) == 32);

/// Session table and states of a run, in device memory.
struct session_arguments {
  const session_frame* frames = nullptr;  ///< one for each frame of the batch
  std::byte* pool = nullptr;              ///< aligned to 256 bytes
  std::size_t stride = 0;                 ///< bytes from one half to the next, a multiple of 256

  /// Address of one half of a state: state_bytes() bytes, aligned to 256.
  [[nodiscard]] PENSTOCK_HOST_DEVICE std::byte* half(std::int32_t place, std::int32_t number) const noexcept {
    return pool + (2 * static_cast<std::size_t>(place) + static_cast<std::size_t>(number)) * stride;
  }
};

/// A session as one continuous row of steps, for operators that look back a fixed number of steps: this frame, the
/// earlier frames of the batch, then the state. Elements before the start of the session are zero.
///
/// The state holds the last `length` steps, the newest at its end. If the session had fewer, only those are valid.
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

  /// Step −length … steps − 1 of the frame; negative ones lie before its first step.
  [[nodiscard]] PENSTOCK_HOST_DEVICE Element at(std::int32_t frame, std::int64_t step,
                                                std::int64_t channel) const noexcept {
    while (step < 0) {
      const session_frame& entry = session.frames[frame];
      if (entry.position + step < 0) {
        return Element{};
      }
      if (entry.previous < 0) {
        const auto* const kept = reinterpret_cast<const Element*>(session.half(entry.place, entry.half));
        return kept[(length + step) * channels + channel];
      }
      frame = entry.previous;
      step += session.frames[frame].steps;
    }
    return input[frame * pitch + step * channels + channel];
  }

  /// The same by the flat index step · channels + channel, without a division for elements of the frame itself.
  [[nodiscard]] PENSTOCK_HOST_DEVICE Element at_element(std::int32_t frame, std::int64_t index) const noexcept {
    if (index >= 0) {
      return input[frame * pitch + index];
    }
    const std::int64_t step = (index - channels + 1) / channels;
    return at(frame, step, index - step * channels);
  }

  /// Address of step −length … −1 in the new state, counted from the end of the last frame of the session in this
  /// batch. Write every step and channel, even if the session had fewer.
  [[nodiscard]] PENSTOCK_HOST_DEVICE Element* kept(const session_frame& last, std::int64_t step) const noexcept {
    return reinterpret_cast<Element*>(session.half(last.place, 1 - last.half)) + (length + step) * channels;
  }
};

/// A position in the steps of one session in one batch: in the state or in any of its frames. Steps are counted from
/// the first step of the initial frame: earlier ones are negative, later ones may lie in the frames after it. Moving to
/// a near step is fast.
template <class Element>
class session_cursor {
 public:
  PENSTOCK_HOST_DEVICE session_cursor(const session_history<Element>& history, std::int32_t frame) noexcept
      : history_{history}, frame_{frame} {}

  /// Elements of a step.
  [[nodiscard]] PENSTOCK_HOST_DEVICE std::int64_t channels() const noexcept { return history_.channels; }
  /// Address of the channels of a step; nullptr before the start of the session. The step lies in the state or in this
  /// batch.
  [[nodiscard]] PENSTOCK_HOST_DEVICE const Element* at(std::int64_t step) noexcept {
    while (step < first_) {
      const session_frame& entry = history_.session.frames[frame_];
      if (entry.previous < 0) {
        const std::int64_t before = step - first_;
        const auto* const kept = reinterpret_cast<const Element*>(history_.session.half(entry.place, entry.half));
        return entry.position + before < 0 ? nullptr : kept + (history_.length + before) * history_.channels;
      }
      frame_ = entry.previous;
      first_ -= history_.session.frames[frame_].steps;
    }
    return history_.input + index(step);
  }

  /// Index of the first element of a step of this batch.
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

  /// Number of steps from this one on, at most `most`, that lie together in memory or before the start of the session.
  [[nodiscard]] PENSTOCK_HOST_DEVICE std::int64_t run(std::int64_t step, std::int64_t most) noexcept {
    static_cast<void>(at(step));
    const session_frame& entry = history_.session.frames[frame_];
    const std::int64_t start = first_ - entry.position;
    const std::int64_t end = step >= first_ ? first_ + entry.steps : step < start ? start : first_;
    return end - step < most ? end - step : most;
  }

 private:
  const session_history<Element>& history_;
  std::int32_t frame_;
  std::int64_t first_ = 0;  ///< the step that frame_ begins with
};

/// Host only: visits steps first … first + count − 1 of `frame`, from −length on, as contiguous pieces of memory, at
/// most one a frame. Calls visit(source, offset, steps): `steps` steps, `offset` steps after `first`, at `source`,
/// which is nullptr before the start of the session.
template <class Element, class Visit>
void visit_runs(const session_history<Element>& history, std::int32_t frame, std::int64_t first, std::int64_t count,
                Visit&& visit) {
  std::int64_t end = first + count;
  while (end > first) {
    const session_frame& entry = history.session.frames[frame];
    const std::int64_t begin = std::clamp<std::int64_t>(0, first, end);
    if (end > begin) {
      visit(history.input + frame * history.pitch + begin * history.channels, begin - first, end - begin);
      end = begin;
    }
    if (entry.previous < 0) {
      break;
    }
    frame = entry.previous;
    first += history.session.frames[frame].steps;
    end += history.session.frames[frame].steps;
  }
  if (end > first) {
    const session_frame& entry = history.session.frames[frame];
    const std::int64_t begin = std::clamp(-entry.position, first, end);
    const auto* const kept = reinterpret_cast<const Element*>(history.session.half(entry.place, entry.half));
    if (end > begin) {
      visit(kept + (history.length + begin) * history.channels, begin - first, end - begin);
    }
    if (begin > first) {
      visit(static_cast<const Element*>(nullptr), std::int64_t{0}, begin - first);
    }
  }
}

/// Copies these steps; those before the start of the session are zero.
template <class Element>
void copy_steps(const session_history<Element>& history, std::int32_t frame, std::int64_t first, std::int64_t count,
                Element* destination) noexcept {
  visit_runs(history, frame, first, count, [&](const Element* from, std::int64_t offset, std::int64_t steps) {
    Element* const at = destination + offset * history.channels;
    if (from == nullptr) {
      std::fill_n(at, steps * history.channels, Element{});
    } else {
      std::copy_n(from, steps * history.channels, at);
    }
  });
}

/// Writes the new state, the last `length` steps, of each session of the batch.
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

#include "daemon/wheel/session_frames.hpp"

#include <algorithm>

#include "daemon/pipeline/plan.hpp"
#include "daemon/request/session_table.hpp"

namespace penstock {
namespace {

// The table lies keeper by keeper, a row of `frames` entries each.
session_frame* table_of(slot& filled) noexcept {
  return reinterpret_cast<session_frame*>(filled.pinned_input.get() + filled.work.pipeline->frame_table_pinned);
}

const plan_state& state_of(const plan& what, std::size_t keeper) noexcept {
  return *what.stages[what.keepers[keeper]].state;
}

// A frame's place among its session's, as the session stands before it.
struct frame_place {
  std::int64_t frames_before = 0;
  std::int64_t steps_before = 0;  // of the pipeline's input
  std::int64_t steps = 0;
};

void write_counts(session_frame& into, const plan_state& state, const frame_place& at) noexcept {
  const step_rate& rate = state.traits.rate;
  const std::int64_t end = state.position(at.frames_before + 1, at.steps_before + at.steps);
  into.position = state.position(at.frames_before, at.steps_before);
  into.steps = static_cast<std::int32_t>(end - into.position);
  into.produced = static_cast<std::int32_t>(rate.total(end) - rate.total(into.position));
}

void write_request(slot& filled, const request& of) noexcept {
  const plan& what = *filled.work.pipeline;
  session_frame* const table = table_of(filled);
  session_record& session = *of.session;
  for (std::uint32_t each = 0; each < of.frames; ++each) {
    const auto frame = static_cast<std::int32_t>(of.first_frame + each);
    const frame_place at{.frames_before = static_cast<std::int64_t>(of.sequence) + each,
                         .steps_before = of.steps_before + each * of.leading,
                         .steps = of.leading};
    for (std::size_t keeper = 0; keeper < what.keepers.size(); ++keeper) {
      session_frame* const row = table + keeper * static_cast<std::size_t>(filled.work.frames);
      session_frame& entry = row[frame];
      write_counts(entry, state_of(what, keeper), at);
      entry.previous = session.newest_frame;
      entry.next = -1;
      entry.place = static_cast<std::int32_t>(session.place);
      entry.half = session.half;
      if (session.newest_frame >= 0) {
        row[session.newest_frame].next = frame;
      }
    }
    session.newest_frame = frame;
  }
}

// The slot takes the session's state over, behind the one that has it now.
void hand_over(slot& to, session_record& session) {
  const slot* const from = session.carrier;
  const bool in_flight = from != nullptr && from->launch == session.carrier_launch && from->launch != 0;
  if (in_flight && std::find(to.predecessors.begin(), to.predecessors.end(), from) == to.predecessors.end()) {
    to.predecessors.push_back(from);
  }
  session.carrier = &to;
  session.carrier_launch = to.launch;
  session.half = 1 - session.half;
  session.newest_frame = -1;
}

}  // namespace

void write_session_frames(slot& filled) {
  filled.predecessors.clear();
  for (const request* each : filled.work.requests) {
    write_request(filled, *each);
  }
  for (const request* each : filled.work.requests) {
    if (each->session->newest_frame >= 0) {
      hand_over(filled, *each->session);
    }
  }
}

void write_warm_up_frames(slot& filled, std::uint32_t places) {
  filled.predecessors.clear();
  const plan& what = *filled.work.pipeline;
  session_frame* const table = table_of(filled);
  for (std::size_t keeper = 0; keeper < what.keepers.size(); ++keeper) {
    for (std::int64_t frame = 0; frame < filled.work.frames; ++frame) {
      session_frame& entry = table[static_cast<std::int64_t>(keeper) * filled.work.frames + frame];
      write_counts(entry, state_of(what, keeper),
                   {.frames_before = 0, .steps_before = 0, .steps = filled.work.leading});
      entry.previous = -1;
      entry.next = -1;
      entry.place = static_cast<std::int32_t>(frame % places);
      entry.half = 0;
    }
  }
}

}  // namespace penstock

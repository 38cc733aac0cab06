#include "daemon/exec/session_state.hpp"

#include <algorithm>
#include <string>

#include "daemon/request/sessions.hpp"

namespace penstock {
namespace {

// The table has a row of `frames` entries for each stage that keeps state.
session_frame* table_of(slot& filled) noexcept {
  return reinterpret_cast<session_frame*>(filled.pinned_input.get() + filled.work.pipeline->frame_table_pinned);
}

double* numbers_of(slot& filled) noexcept {
  const plan& pipeline = *filled.work.pipeline;
  return reinterpret_cast<double*>(filled.pinned_input.get() + pipeline.frame_table_pinned +
                                   pipeline.numbers_offset(filled.work.frames));
}

const plan_state& state_of(const plan& pipeline, std::size_t keeper) noexcept {
  return *pipeline.stages[pipeline.keepers[keeper]].state;
}

// What a frame's session had before it.
struct frame_position {
  std::int64_t frames_before = 0;
  std::int64_t steps_before = 0;  // of the pipeline's input
  std::int64_t steps = 0;
};

void write_counts(session_frame& entry, const plan_state& state, const frame_position& start) noexcept {
  const step_rate& rate = state.traits.rate;
  const std::int64_t end = state.position(start.frames_before + 1, start.steps_before + start.steps);
  entry.position = state.position(start.frames_before, start.steps_before);
  entry.steps = static_cast<std::int32_t>(end - entry.position);
  entry.produced = static_cast<std::int32_t>(rate.total(end) - rate.total(entry.position));
}

void write_request(slot& filled, const request& request) noexcept {
  const plan& pipeline = *filled.work.pipeline;
  session_frame* const table = table_of(filled);
  session_record& session = *request.session;
  for (std::uint32_t each = 0; each < request.frames; ++each) {
    const auto frame = static_cast<std::int32_t>(request.first_frame + each);
    const frame_position start{.frames_before = static_cast<std::int64_t>(request.sequence) + each,
                               .steps_before = request.steps_before + each * request.leading,
                               .steps = request.leading};
    for (std::size_t keeper = 0; keeper < pipeline.keepers.size(); ++keeper) {
      session_frame* const row = table + keeper * static_cast<std::size_t>(filled.work.frames);
      session_frame& entry = row[frame];
      write_counts(entry, state_of(pipeline, keeper), start);
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

// The slot takes over the session's state from the slot that has it.
void hand_over(slot& next, session_record& session) {
  const slot* const carrier = session.carrier;
  const bool in_flight = carrier != nullptr && carrier->launch == session.carrier_launch && carrier->launch != 0;
  if (in_flight && std::find(next.predecessors.begin(), next.predecessors.end(), carrier) == next.predecessors.end()) {
    next.predecessors.push_back(carrier);
  }
  session.carrier = &next;
  session.carrier_launch = next.launch;
  session.half = 1 - session.half;
  session.newest_frame = -1;
}

}  // namespace

state_pool::state_pool(device& device, std::span<const plan> plans, std::uint32_t max_sessions)
    : sessions_(max_sessions) {
  for (const plan& each : plans) {
    device_memory& pool = by_plan_.emplace_back();
    if (!each.keeps_state()) {
      continue;
    }
    const std::size_t bytes = 2 * each.state_bytes * max_sessions;
    try {
      pool = device.allocate(bytes);
    } catch (const device_error& error) {
      throw device_error("pipeline '" + each.declaration.name + "' keeps " + std::to_string(each.state_bytes) +
                         " bytes twice for each of " + std::to_string(max_sessions) + " sessions: " + error.what() +
                         "; set sessions.max_sessions lower");
    }
  }
}

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

void write_numbers(slot& filled) noexcept {
  const plan& pipeline = *filled.work.pipeline;
  double* next = numbers_of(filled);
  for (const std::size_t stage : pipeline.tuned) {
    const plan_stage& tuned = pipeline.stages[stage];
    for (const request* const each : filled.work.requests) {
      const double* const own = each->numbers->data() + tuned.first_number;
      for (std::uint32_t frame = 0; frame < each->frames; ++frame) {
        next = std::copy_n(own, tuned.numbers, next);
      }
    }
  }
}

void write_warm_up_numbers(slot& filled) noexcept {
  const plan& pipeline = *filled.work.pipeline;
  double* next = numbers_of(filled);
  for (const std::size_t stage : pipeline.tuned) {
    for (std::int64_t frame = 0; frame < filled.work.frames; ++frame) {
      for (const tunable_number& each : pipeline.declaration.stages[stage].numbers) {
        *next++ = each.value;
      }
    }
  }
}

void write_warm_up_frames(slot& filled, std::uint32_t sessions) {
  filled.predecessors.clear();
  const plan& pipeline = *filled.work.pipeline;
  session_frame* const table = table_of(filled);
  for (std::size_t keeper = 0; keeper < pipeline.keepers.size(); ++keeper) {
    for (std::int64_t frame = 0; frame < filled.work.frames; ++frame) {
      session_frame& entry = table[static_cast<std::int64_t>(keeper) * filled.work.frames + frame];
      write_counts(entry, state_of(pipeline, keeper),
                   {.frames_before = 0, .steps_before = 0, .steps = filled.work.leading});
      entry.previous = -1;
      entry.next = -1;
      entry.place = static_cast<std::int32_t>(frame % sessions);
      entry.half = 0;
    }
  }
}

}  // namespace penstock

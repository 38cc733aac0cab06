#include "daemon/shard/shard_change.hpp"

#include <array>
#include <span>
#include <utility>

#include "daemon/batch/completion_queue.hpp"
#include "daemon/batch/slot_ring.hpp"
#include "daemon/exec/session_state.hpp"
#include "daemon/exec/stream_pool.hpp"

namespace penstock {

fresh_pipeline make_fresh(const pipeline_declaration& declared, std::uint32_t id, device& device,
                          const settings& settings, const compile_options& code) {
  fresh_pipeline made;
  made.compiled = std::make_unique<plan>(
      compile_plan(declared, id, device, static_cast<std::uint32_t>(settings.stream_pool.streams), code));
  // The only plan of the pools below; the shard gives it its real place.
  made.compiled->place = 0;
  const std::span<const plan> alone(made.compiled.get(), 1);
  wake_event signal;
  completion_queue completed(signal);
  slot_ring scratch(device, 1, size_for(alone), false, completed, signal);
  state_pool states(device, alone, settings.sessions.max_sessions);
  {
    stream_pool warm(device, static_cast<int>(made.compiled->order.lanes), std::array{made.compiled->streams()},
                     completion_mode::callback, states);
    slot* const one = scratch.claim();
    made.inline_steps = warm.warm_up(*made.compiled, *one);
    slot_ring::drop(*one);
  }
  made.states = states.take(0);
  return made;
}

}  // namespace penstock

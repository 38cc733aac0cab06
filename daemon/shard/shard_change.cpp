#include "daemon/shard/shard_change.hpp"

#include <array>
#include <span>
#include <utility>

#include "daemon/completion/completion.hpp"
#include "daemon/ring/ring.hpp"
#include "daemon/ring/state_pool.hpp"
#include "daemon/wheel/wheel.hpp"

namespace penstock {

fresh_pipeline make_fresh(const pipeline_declaration& declared, std::uint32_t id, device& on, const settings& how) {
  fresh_pipeline made;
  made.what = std::make_unique<plan>(compile_plan(declared, id, on, static_cast<std::uint32_t>(how.wheel.streams)));
  // Alone among its kind, for as long as this takes; the shard gives it its place.
  made.what->place = 0;
  const std::span<const plan> alone(made.what.get(), 1);
  wake_signal signal;
  completion_queue completed(signal);
  ring scratch(on, 1, size_for(alone), false, completed, signal);
  state_pool states(on, alone, how.sessions.max_sessions);
  {
    wheel warm(on, static_cast<int>(made.what->order.lanes), std::array{declared.priority}, completion_mode::callback,
               states);
    slot* const one = scratch.claim();
    made.brief_steps = warm.warm_up(*made.what, *one);
    ring::drop(*one);
  }
  made.states = states.take(0);
  return made;
}

}  // namespace penstock

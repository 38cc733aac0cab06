#include "daemon/ring/state_pool.hpp"

#include <string>

namespace penstock {

state_pool::state_pool(device& from, std::span<const plan> plans, std::uint32_t max_sessions) : places_(max_sessions) {
  for (const plan& each : plans) {
    device_memory& pool = by_plan_.emplace_back();
    if (!each.keeps_state()) {
      continue;
    }
    const std::size_t bytes = 2 * each.state_bytes * max_sessions;
    try {
      pool = from.allocate(bytes);
    } catch (const device_error& error) {
      throw device_error("pipeline '" + each.declaration.name + "' keeps " + std::to_string(each.state_bytes) +
                         " bytes twice for each of " + std::to_string(max_sessions) + " sessions: " + error.what() +
                         "; set sessions.max_sessions lower");
    }
  }
}

}  // namespace penstock

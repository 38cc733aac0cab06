#pragma once

#include <cstdint>
#include <span>

#include "daemon/ring/ring.hpp"

namespace penstock {

/// Writes the table of session frames of a batch, for each stage that keeps state, into its pinned input, and moves its
/// sessions on: this slot carries their states from now, and slot::predecessors holds the slots in flight that carried
/// them before. Once for each launch, in the order of launches.
void write_session_frames(slot& filled);

/// The same for a start-up launch of frames that belong to nobody: each at the start of a session of its own, as far as
/// there are places.
void write_warm_up_frames(slot& filled, std::uint32_t places);

}  // namespace penstock

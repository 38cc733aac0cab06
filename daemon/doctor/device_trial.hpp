#pragma once

#include "daemon/doctor/facts.hpp"
#include "daemon/settings/settings.hpp"

namespace penstock {

/// Opens the devices, compiles the pipelines for the first of them, allocates the pinned memory of all shards and gives
/// it back: what a start-up would do. Sets `device`, `memory` and `load.shards` of `into`.
void try_device(const settings& how, doctor_facts& into);

}  // namespace penstock

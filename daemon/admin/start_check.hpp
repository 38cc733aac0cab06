#pragma once

#include <span>
#include <string>

#include "daemon/pipeline/plan.hpp"
#include "daemon/settings/settings.hpp"

namespace penstock {

/// What a start would refuse, as far as that can be told without the device: pipelines that don't compile (they are
/// compiled for the host), more of them than WELCOME can describe, endpoints that shards can't have, and slots that the
/// machine has no memory for. Throws configuration_error, or device_error. Returns lines for people that say what each
/// pipeline, and all of it, costs in memory, and a warning where that is more than a quarter of the machine's.
[[nodiscard]] std::string check_start(const settings& how);

/// Throws configuration_error when the slots of all shards, and on the host backend the states of sessions as well,
/// take more memory than the machine has for this process: the kernel would end it, or others, in the middle of its
/// start.
void check_memory(const settings& how, std::span<const plan> plans, bool on_host);

}  // namespace penstock

#pragma once

#include <string>
#include <vector>

#include "daemon/settings/settings.hpp"

namespace penstock {

/// Stands for a configuration as a whole, with the contents of the .npy files that it names: 16 hexadecimal digits
/// (FNV-1a) of what print_settings says of it.
[[nodiscard]] std::string configuration_hash(const settings& of);

/// Whether both declare the same, wherever they stand.
[[nodiscard]] bool same_pipeline(const pipeline_declaration& left, const pipeline_declaration& right);

/// What the second has different from what the daemon started with and only a restart can change, a line each:
/// "[device] streams = 4". Everything but pipelines, the limits of clients, sessions.idle_timeout, drain_timeout,
/// hang_timeout, log_level and timing.batches_per_second; and larger requests than the sockets were opened for, and
/// timing where the daemon started without.
[[nodiscard]] std::vector<std::string> needs_restart(const settings& started, const settings& wanted);

}  // namespace penstock

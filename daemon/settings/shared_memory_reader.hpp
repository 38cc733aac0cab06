#pragma once

#include "daemon/settings/settings.hpp"
#include "daemon/settings/settings_table.hpp"

namespace penstock {

/// Reads [shared_memory]. Throws configuration_error.
void read_shared_memory(settings_table table, shared_memory_settings& into);

}  // namespace penstock

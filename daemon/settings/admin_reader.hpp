#pragma once

#include "daemon/settings/settings.hpp"
#include "daemon/settings/settings_table.hpp"

namespace penstock {

/// Reads [admin]. Throws configuration_error.
void read_admin(settings_table table, admin_settings& into);

}  // namespace penstock

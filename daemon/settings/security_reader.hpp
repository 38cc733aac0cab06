#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "daemon/settings/settings.hpp"
#include "daemon/settings/settings_table.hpp"

namespace penstock {

/// Reads [security]. Files are looked for in `folder`. Throws configuration_error.
void read_security(settings_table table, const std::filesystem::path& folder, security_settings& into);

}  // namespace penstock

#pragma once

#include <functional>
#include <string>
#include <vector>

#include "daemon/settings/settings.hpp"
#include "proto/findings/finding.hpp"

namespace penstock {

/// Looks at this machine and at the configuration as a daemon that starts here and now would. `read` gives the
/// configuration of the file `name`, or throws configuration_error.
[[nodiscard]] std::vector<finding> examine(const std::string& name, const std::function<settings()>& read);

}  // namespace penstock

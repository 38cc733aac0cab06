#pragma once

#include <string>

#include "daemon/shard/shard_report.hpp"

namespace penstock {

/// The JSON body of STATUS; proto/PROTOCOL.md describes it. Where so many pipelines are timed that it would be too
/// large for a message, the last ones' times are left out.
[[nodiscard]] std::string report_status(const shard_report& of);

}  // namespace penstock

#pragma once

#include <string>
#include <vector>

#include <toml++/toml.h>

#include "daemon/pipeline/declaration.hpp"

namespace penstock {

/// Reads the [[pipeline]] tables and checks each of them (check_pipeline). `pipelines` is the node of that key, `file`
/// the configuration's name in messages. Throws configuration_error.
[[nodiscard]] std::vector<pipeline_declaration> read_pipelines(const toml::node& pipelines, const std::string& file);

}  // namespace penstock

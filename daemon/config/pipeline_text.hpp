#pragma once

#include <string>
#include <vector>

#include "daemon/config/setting.hpp"
#include "daemon/pipeline/declaration.hpp"

namespace penstock {

/// The keys of [[pipeline]].
[[nodiscard]] const std::vector<setting<pipeline_declaration>>& pipeline_settings();
/// The keys of [[pipeline.stage]], but for the parameters of its operator.
[[nodiscard]] const std::vector<setting<stage_declaration>>& stage_settings();

/// Reads the [[pipeline]] tables and checks each of them (check_pipeline). `pipelines` is the node of that key, `file`
/// the configuration's name in messages; .npy files and users' code, which `code` must allow, are looked for in its
/// folder. Throws configuration_error.
[[nodiscard]] std::vector<pipeline_declaration> read_pipelines(const toml::node& pipelines, const std::string& file,
                                                               const code_settings& code = {});

/// The [[pipeline]] table with its stages, which read_pipelines reads back to the same.
[[nodiscard]] std::string print_pipeline(const pipeline_declaration& pipeline);

}  // namespace penstock

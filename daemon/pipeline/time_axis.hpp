#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/pipeline/declaration.hpp"

namespace penstock {

/// By stage of a checked pipeline: how many steps of the pipeline's input, along its first dimension, one index of the
/// first dimension of the stage's output covers. 0: that dimension is not time but channels, bins or events.
[[nodiscard]] std::vector<std::int64_t> steps_of_stages(const pipeline_declaration& pipeline);

/// What is allowed and yet looks as if channels were taken for time, or time for channels. A sentence each, which
/// begins with the stage's place in the configuration.
[[nodiscard]] std::vector<std::string> doubts_about(const pipeline_declaration& pipeline);

}  // namespace penstock

#pragma once

#include <string>
#include <vector>

#include "daemon/pipeline/declaration.hpp"
#include "kernels/parameters.hpp"

namespace penstock {

/// The parameters of a stage as its operator takes them: those of a map with the names of what it reads.
[[nodiscard]] parameters operator_settings(const stage_declaration& stage);

/// A checked pipeline with fewer stages: a map whose result one other map alone reads becomes part of that one, which
/// keeps its name. Both compute what they did, in the same order. A map stays alone if its result is an output of the
/// pipeline, is rounded to another type than f32, or has another shape than its reader's.
[[nodiscard]] pipeline_declaration fuse_maps(pipeline_declaration pipeline);

/// The stages that a map took in, those that they took in before them.
[[nodiscard]] std::vector<std::string> fused_stages(const parameters& settings);

}  // namespace penstock

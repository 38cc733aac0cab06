#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/pipeline/declaration.hpp"

namespace penstock {

/// What `from` calls the pipeline's own input, where it has one; no stage may have this name.
inline constexpr std::string_view input_name = "input";

/// Which stage reads which: reads[i] lists the stages that stage i reads from, by their places in the declaration. The
/// pipeline's input is not among them.
struct stage_graph {
  std::vector<std::vector<std::size_t>> reads;

  /// An order in which every stage comes after all that it reads from, else as declared. Without the stages that are in
  /// a cycle or behind one.
  [[nodiscard]] std::vector<std::size_t> running_order() const;

  /// One cycle, each stage reading from the next and the last from the first; empty when there is none.
  [[nodiscard]] std::vector<std::size_t> cycle() const;
};

/// Whether `name` can name a pipeline or a stage: 1 to 64 of A-Z a-z 0-9 _ . -
[[nodiscard]] bool is_name(std::string_view name) noexcept;

/// Checks a declaration from end to end and returns it complete: `from` and `outputs` filled in where the configuration
/// has none, stages in an order in which they can run (as declared where that is one), each stage's output spec.
///
/// Throws configuration_error on a wrong or repeated name, a `from` or an output that names nothing, a cycle, an
/// unknown operator or parameter, whatever an operator's infer refuses, a stage whose result nobody takes, and a frame
/// larger than a batch.
[[nodiscard]] pipeline_declaration check_pipeline(pipeline_declaration declared);

/// By stage of a checked pipeline: the time that the first dimension of its output covers; none where that is another.
[[nodiscard]] std::vector<time_extent> time_extents_of_stages(const pipeline_declaration& pipeline);

/// By stage of a checked pipeline: where the time of its output lies among the steps of the pipeline's input, by the
/// stage's first input.
[[nodiscard]] std::vector<step_timing> timing_of_stages(const pipeline_declaration& pipeline);

/// Warnings where channels seem to be taken for time, or time for channels. A sentence each, which begins with the
/// stage's place in the configuration.
[[nodiscard]] std::vector<std::string> doubts_about(const pipeline_declaration& pipeline);

}  // namespace penstock

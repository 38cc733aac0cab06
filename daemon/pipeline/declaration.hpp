#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/configuration_error.hpp"
#include "daemon/device/device.hpp"
#include "kernels/operation.hpp"
#include "kernels/parameters.hpp"
#include "kernels/tensor.hpp"

namespace penstock {

enum class overflow_policy { reject, drop_oldest };

struct batch_limits {
  std::int64_t max_frames = 256;
  std::size_t max_bytes = std::size_t{8} << 20U;
  std::chrono::nanoseconds max_delay = std::chrono::microseconds{500};

  bool operator==(const batch_limits&) const = default;
};

/// The lines on which the configuration gives fields, so that an error can point at its own.
using field_lines = std::map<std::string, std::uint32_t, std::less<>>;

/// `position`, at the line of that field, or of the table that "values.least" stands in, if it is known.
[[nodiscard]] inline source_position position_of(std::string_view field, const field_lines& lines,
                                                 source_position position) {
  auto found = lines.find(field);
  found = found == lines.end() ? lines.find(field.substr(0, field.find('.'))) : found;
  position.line = found == lines.end() ? position.line : found->second;
  return position;
}

struct stage_declaration {
  std::string name;
  std::string op;
  std::vector<std::string>
      from;  ///< outputs of stages, or "input"; the stage before it when the configuration has none
  std::vector<std::string> tunable;  ///< parameters that may change while sessions go on
  parameters settings;
  source_position position;
  field_lines lines;

  // Filled in by the check.
  std::vector<tunable_number> numbers;         ///< of a tuned stage: operator_definition::tunable
  std::vector<tensor_spec> inputs;             ///< of a tuned stage: what `numbers` was made with
  tensor_spec output;                          ///< of several outputs, the first
  std::vector<operator_output> named_outputs;  ///< all, with the names by which others read them: "STAGE.NAME"
  step_rates rate;                             ///< between the pipeline's input and a variable output
  std::optional<session_traits> session;       ///< of an operator that keeps state
  std::optional<std::size_t> axis;             ///< of its first input, along which it works

  /// Of one of its fields; "" for the stage.
  [[nodiscard]] configuration_place place(const std::string& pipeline, const std::string& field = "") const {
    return {position_of(field, lines, position), pipeline, name, field};
  }
  /// All of them. The sole output has the stage's name.
  [[nodiscard]] std::vector<operator_output> outputs() const {
    return named_outputs.empty() ? std::vector<operator_output>{{name, output}} : named_outputs;
  }
};

/// One [[pipeline]] of the configuration, checked: names resolve, stages stand in an order in which they can run,
/// and shapes and dtypes fit from end to end.
struct pipeline_declaration {
  std::string name;
  tensor_spec input;                    ///< a frame; of several inputs, that of the first
  std::vector<operator_output> inputs;  ///< all, where the configuration names several; otherwise none
  batch_limits batch;
  stream_priority priority = stream_priority::normal;
  overflow_policy overflow = overflow_policy::reject;
  bool ordered = true;               ///< results of a session come in its order
  std::vector<std::string> outputs;  ///< of stages; those of the last stage when the configuration has none
  std::vector<stage_declaration> stages;
  source_position position;
  field_lines lines;  ///< of its own fields, also of those in tables: "batch.max_frames"

  /// The dimension of the input that is time, as its stages with state say. Filled in by the check.
  std::size_t time_axis = 0;

  /// Samples of a frame, of one of variable length at most.
  [[nodiscard]] std::int64_t frame_steps() const { return input.shape[time_axis]; }

  /// All of them, with the names by which stages read them.
  [[nodiscard]] std::vector<operator_output> all_inputs() const {
    return inputs.empty() ? std::vector<operator_output>{{"input", input}} : inputs;
  }
  /// Bytes of one frame of all inputs.
  [[nodiscard]] std::size_t frame_bytes() const {
    std::size_t sum = inputs.empty() ? input.bytes() : 0;
    for (const operator_output& each : inputs) {
      sum += each.spec.bytes();
    }
    return sum;
  }
  /// Of one of its fields; "" for the pipeline.
  [[nodiscard]] configuration_place place(const std::string& field = "") const {
    return {position_of(field, lines, position), name, "", field};
  }
};

/// A pipeline of the configuration that is not served, as the device was lost again and again while it ran.
struct refused_pipeline {
  std::string name;
  std::string stages;  ///< with users' code, for people
  std::uint32_t deaths = 0;
  std::string error;   ///< of the last death
  std::string reason;  ///< a sentence for people, with what to do
};

}  // namespace penstock

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "daemon/device/device.hpp"
#include "daemon/pipeline/declaration.hpp"

namespace penstock {

/// Where one buffer of a plan lies in a slot's device arena.
struct plan_buffer {
  std::string name;  ///< "input", or the stage that writes it
  tensor_spec spec;
  std::size_t offset = 0;  ///< bytes from the arena's start, a multiple of 256
  std::size_t bytes = 0;   ///< for the most frames of a batch
};

/// One stage, compiled. Buffers are indices into plan::buffers.
struct plan_stage {
  std::string name;
  std::string op;
  std::vector<std::size_t> inputs;
  std::size_t output = 0;
  std::size_t scratch_offset = 0;
  std::unique_ptr<operation> compiled;
};

/// One output of a pipeline and where its batch lies in a slot's pinned output region.
struct plan_output {
  std::string name;  ///< the stage that makes it
  std::string op;
  std::size_t buffer = 0;         ///< index into plan::buffers
  std::size_t pinned_offset = 0;  ///< a multiple of 256
};

/// A pipeline, compiled for a device: what a batch of it copies, launches and gives back. Immutable once made.
struct plan {
  std::uint32_t id = 0;  ///< the number that SUBMIT carries; the pipeline's place in the configuration
  pipeline_declaration declaration;
  std::int64_t max_frames = 0;       ///< frames a batch, after max_frames and max_bytes
  std::vector<plan_buffer> buffers;  ///< buffers[0] is the input, at offset 0
  std::vector<plan_stage> stages;    ///< in an order in which they can run
  std::vector<plan_output> outputs;
  std::size_t pinned_input_bytes = 0;
  std::size_t pinned_output_bytes = 0;
  std::size_t arena_bytes = 0;

  [[nodiscard]] const tensor_spec& input() const noexcept { return buffers.front().spec; }
  [[nodiscard]] const tensor_spec& output_spec(std::size_t index) const noexcept {
    return buffers[outputs[index].buffer].spec;
  }
};

/// Compiles a checked declaration for a device. Throws device_error, or configuration_error when the device
/// can't run a stage.
[[nodiscard]] plan compile_plan(const pipeline_declaration& declaration, std::uint32_t id, device& target);

}  // namespace penstock

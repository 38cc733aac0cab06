#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "daemon/device/device.hpp"
#include "kernels/operation.hpp"

namespace penstock {

/// One run of one operator.
struct operation_case {
  std::string op;
  parameters settings;
  tensor_spec input;
  batch_extent extent{.frames = 1, .leading = 0};
  /// The operation is compiled for so many more frames than it runs on.
  std::int64_t spare_frames = 0;
  /// Inputs after `input`, for operators with several.
  std::vector<tensor_spec> further_inputs{};
  /// operation_arguments::numbers of all frames; empty: the stage is not tuned.
  std::vector<double> numbers{};

  /// `input` and the further inputs.
  [[nodiscard]] std::vector<tensor_spec> inputs() const;
  /// The output's spec; throws parameter_error.
  [[nodiscard]] tensor_spec output() const;
  /// For failures: operator, inputs, frames, leading extent.
  [[nodiscard]] std::string text() const;
};

/// The bytes of a batch of each input, in the order of operation_case::inputs().
using input_bytes = std::span<const std::span<const std::byte>>;

/// Where an operation finds its inputs and leaves its output.
enum class memory_kind { device, pinned };

/// Runs operators on a device through its public interface, and checks that they keep the rules of operation.hpp.
class operation_runner {
 public:
  explicit operation_runner(std::unique_ptr<device> target);

  /// The output's bytes. Fails the test if the operation left a byte of its output unwritten, wrote outside of its
  /// output and scratch, changed an input, or gave other results in a second run, which is in pinned memory for an
  /// operation that is single_pass. Throws parameter_error and device_error; a fault of the device is thrown as
  /// std::runtime_error.
  [[nodiscard]] std::vector<std::byte> run(const operation_case& setup, input_bytes inputs);
  /// The same for one input.
  [[nodiscard]] std::vector<std::byte> run(const operation_case& setup, std::span<const std::byte> input);

 private:
  struct surroundings {
    std::byte poison;  ///< what lies in the memory before the run, and around it
    memory_kind kind;
  };

  std::vector<std::byte> run_once(const operation_case& setup, operation& compiled, input_bytes inputs,
                                  const surroundings& in);

  std::unique_ptr<device> device_;
  std::unique_ptr<stream> stream_;
};

}  // namespace penstock

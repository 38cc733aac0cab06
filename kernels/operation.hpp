#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/fault.hpp"
#include "kernels/parameters.hpp"
#include "kernels/session.hpp"
#include "kernels/tensor.hpp"

namespace penstock {

/// What one run reads and writes: device memory on CUDA, ordinary memory on the host.
///
/// Pointers are aligned to 256 bytes; on the host, payloads that are read in place are aligned to 8. Inputs do not
/// overlap the output or the scratch. Exception: the output of an operator that overwrites may be its first input.
struct operation_arguments {
  std::span<const void* const> inputs;
  void* output = nullptr;  ///< the first
  void* scratch = nullptr;
  batch_extent extent;
  session_arguments session;                   ///< for an operation with state_bytes() > 0
  std::span<void* const> outputs{};            ///< all, for an operator with named outputs
  const session_frame* host_frames = nullptr;  ///< session.frames, in host memory
  /// Of a tuned stage, for each frame: operator_definition::tunable with the values of its request, in that order.
  /// Where the inputs are. nullptr: those of the configuration hold for all frames.
  const double* numbers = nullptr;
};

/// One stage's operator, compiled for one backend, one set of input specs and at most `max_frames` frames a batch.
///
/// Thread: on CUDA `run` is called by one thread at a time; it enqueues, and never synchronizes or allocates. On the
/// host `run` does the work itself, and several threads call it at once.
/// State: the object keeps nothing between runs, so that one operation serves every stream. A session's state lies in
/// the memory that session_arguments points to.
class operation {
 public:
  operation() = default;
  operation(const operation&) = delete;
  operation& operator=(const operation&) = delete;
  virtual ~operation() = default;

  /// Bytes of scratch that a run over `max_frames` frames needs.
  [[nodiscard]] virtual std::size_t scratch_bytes() const noexcept { return 0; }
  /// Bytes of state a session; 0 for an operator without state.
  [[nodiscard]] virtual std::size_t state_bytes() const noexcept { return 0; }
  /// Bytes of device memory that it keeps for itself: a model's weights, and what captured work is captured around.
  [[nodiscard]] virtual std::size_t own_bytes() const noexcept { return 0; }
  /// True if a run reads its inputs once and writes its output once, both in order, and does not read the output again.
  /// On CUDA it may then get pinned host memory; on the host the minimum payload size for reading in place is lower.
  [[nodiscard]] virtual bool single_pass() const noexcept { return false; }
  /// True if the output of a run may be its first input, as operator_definition::overwrites says of a whole operator.
  [[nodiscard]] virtual bool overwrites() const noexcept { return false; }
  /// What people may want to know of how it was made, for the log; "" for nothing.
  [[nodiscard]] virtual std::string note() const { return {}; }
  /// `stream` is a kernel_queue on CUDA and nullptr on the host, and on a stream for operations that block.
  virtual fault run(void* stream, const operation_arguments& arguments) noexcept = 0;
};

/// What an operation is compiled from.
struct operation_request {
  const parameters& settings;
  std::span<const tensor_spec> inputs;
  std::int64_t max_frames = 1;
  bool tuned = false;  ///< each run has operation_arguments::numbers
};

using make_operation = std::unique_ptr<operation> (*)(const operation_request&);

/// One of several outputs of an operator.
struct operator_output {
  std::string name;  ///< others read "STAGE.NAME"
  tensor_spec spec;

  bool operator==(const operator_output&) const = default;
};

/// A parameter that may change from frame to frame, and its value.
struct tunable_number {
  std::string name;
  double value = 0.0;

  bool operator==(const tunable_number&) const = default;
};

/// One operator of the catalogue: its name, its parameters and its output.
struct operator_definition {
  std::string_view name;
  /// The parameter keys that it knows; any other is an error.
  std::span<const std::string_view> keys;
  /// The spec of the output, of several the first; throws parameter_error on a wrong parameter, a wrong input or a
  /// wrong number of inputs.
  tensor_spec (*infer)(const parameters& settings, std::span<const tensor_spec> inputs);
  make_operation make_host;  ///< nullptr: the host backend has none
  /// nullptr for an operator that never keeps state. Call it only with what `infer` has accepted.
  std::optional<session_traits> (*session)(const parameters& settings, std::span<const tensor_spec> inputs) = nullptr;
  /// True if on the host the output of a run may be its first input.
  bool overwrites = false;
  /// All outputs, in the order of operation_arguments::outputs; none for a stage whose output has the stage's name.
  /// nullptr for an operator without named outputs. Call it only with what `infer` has accepted.
  std::vector<operator_output> (*named_outputs)(const parameters& settings,
                                                std::span<const tensor_spec> inputs) = nullptr;
  /// The numbers that `tunable` of a stage may name, as operation_arguments::numbers has them; nullptr for an operator
  /// that has none. They are keys, or names in the table `values`. Throws parameter_error as `infer` does.
  std::vector<tunable_number> (*tunable)(const parameters& settings, std::span<const tensor_spec> inputs) = nullptr;
};

/// Sets a number that operator_definition::tunable names: in the table `values` if that has it, else as a key.
void set_number(parameters& settings, const std::string& name, double value);

/// All built-in operators, sorted by name.
[[nodiscard]] std::span<const operator_definition> operator_catalogue() noexcept;
/// Their names and `map`, sorted: all that run without users' code.
[[nodiscard]] std::vector<std::string_view> operator_names();
/// A built-in operator, `map`, or one that runs users' code; nullptr if there is no such operator.
[[nodiscard]] const operator_definition* find_operator(std::string_view name) noexcept;

/// The axis of its first input along which an operator works; none for one that works on each element by itself, or
/// whose axes its parameters do not tell. Call it only with what `infer` has accepted.
[[nodiscard]] std::optional<std::size_t> axis_of(const operator_definition& definition, const parameters& settings,
                                                 std::span<const tensor_spec> inputs);

/// The CUDA implementation of an operator; nullptr if there is none. Exists in the CUDA module only.
[[nodiscard]] make_operation find_cuda_operation(std::string_view name) noexcept;

}  // namespace penstock

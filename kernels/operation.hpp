#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "kernels/fault.hpp"
#include "kernels/parameters.hpp"
#include "kernels/session_frame.hpp"
#include "kernels/step_rate.hpp"
#include "kernels/tensor.hpp"

namespace penstock {

/// How much of a batch there is to do.
struct batch_extent {
  std::int64_t frames = 0;
  /// The leading dimension of the stage's inputs in this batch: how far apart the frames lie. Only specs that are
  /// `variable` look at it. The output's is rate.most(leading) where the operator has a rate, else the same.
  std::int64_t leading = 0;
};

/// What one run of an operation reads and writes: device memory on CUDA, ordinary memory on the host.
/// Every pointer is aligned to 256 bytes, but on the host those of payloads that stay where they came in: to 8. Inputs
/// never overlap the output or the scratch, but for the first input of an operator that overwrites: that may be the
/// output.
struct operation_arguments {
  std::span<const void* const> inputs;
  void* output = nullptr;
  void* scratch = nullptr;
  batch_extent extent;
  session_arguments session;  ///< for an operation with state_bytes() > 0
};

/// One stage's operator, compiled for one backend, one input spec and at most `max_frames` frames a batch.
///
/// The object keeps nothing between runs, so that one operation serves every stream; what a session has to keep lies
/// in the memory that session_arguments points at. On CUDA `run` only enqueues: it never
/// synchronizes and never allocates, and it is called by one thread at a time. On the host `run` does the work and is
/// called by several threads at once.
class operation {
 public:
  operation() = default;
  operation(const operation&) = delete;
  operation& operator=(const operation&) = delete;
  virtual ~operation() = default;

  /// Bytes of scratch that a run with the most frames needs.
  [[nodiscard]] virtual std::size_t scratch_bytes() const noexcept { return 0; }
  /// Bytes that each session keeps between its batches; 0 where the operator keeps nothing.
  [[nodiscard]] virtual std::size_t state_bytes() const noexcept { return 0; }
  /// Whether a run reads its inputs once, writes its output once and does not read it again, each in long rows of
  /// bytes, or little as a whole. On CUDA it may then be given pinned memory of the host as well as the device's own;
  /// on the host a payload is read where it came in from fewer bytes on.
  [[nodiscard]] virtual bool single_pass() const noexcept { return false; }
  /// `stream` is the kernel_queue on CUDA and nullptr on the host.
  virtual fault run(void* stream, const operation_arguments& arguments) noexcept = 0;
};

/// What an operation is compiled from.
struct operation_request {
  const parameters& settings;
  std::span<const tensor_spec> inputs;
  std::int64_t max_frames = 1;
};

/// How an operator that keeps state goes along a session.
struct session_traits {
  bool whole_frames = false;  ///< a step is a frame, not an index of the frame's first dimension
  step_rate rate;             ///< never with whole_frames; for a fixed input its extent is a multiple of the divisor
};

using make_operation = std::unique_ptr<operation> (*)(const operation_request&);

/// One operator of the catalogue: what it is called, what it takes and what comes out of it.
struct operator_definition {
  std::string_view name;
  /// Every parameter key that it knows; any other is an error.
  std::span<const std::string_view> keys;
  /// The output's spec; throws parameter_error on a wrong parameter, a wrong input or a wrong number of inputs.
  tensor_spec (*infer)(const parameters& settings, std::span<const tensor_spec> inputs);
  make_operation make_host;
  /// nullptr for an operator that keeps no state. Asked only after `infer` has accepted the same.
  session_traits (*session)(const parameters& settings, std::span<const tensor_spec> inputs) = nullptr;
  /// Whether on the host a run's output may be its first input itself.
  bool overwrites = false;
};

/// All operators, sorted by name.
[[nodiscard]] std::span<const operator_definition> operator_catalogue() noexcept;
/// nullptr when there is none of that name.
[[nodiscard]] const operator_definition* find_operator(std::string_view name) noexcept;

}  // namespace penstock

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "kernels/operation.hpp"

namespace penstock {

/// reframe: a session's steps in frames of `length`, whatever frames they came in.
///
///   row r of the session = steps r·length … (r + 1)·length − 1
/// A frame of the input gives the rows that become whole with it; what is left over at its end waits for the next one.
///
/// Input: any element type, [N, channels...]; N may be "max N". Steps run along the first dimension.
/// Output: [rows, length, channels...] of the same type: N / length rows for a fixed N, which must be a multiple of
/// length, and at most ⌈N / length⌉ for "max N".
/// Parameters:
///   length  integer, 1 … 2³¹ − 1, required, in steps
/// State: the last length − 1 steps (at least one).
/// Bytes are copied as they are: NaN payloads too.
struct reframe_settings {
  std::int64_t length = 1;
  std::int64_t kept = 1;       ///< steps of the state
  std::size_t step_bytes = 0;  ///< of all channels
  std::size_t word = 1;        ///< bytes of the largest machine word, at most 16, that divides a step
  tensor_spec input;
  tensor_spec output;

  [[nodiscard]] step_rate rate() const noexcept { return {length, 0}; }
};

/// Throws parameter_error.
[[nodiscard]] reframe_settings parse_reframe(const parameters& settings, const tensor_spec& input);
[[nodiscard]] tensor_spec infer_reframe(const parameters& settings, std::span<const tensor_spec> inputs);
[[nodiscard]] session_traits reframe_session(const parameters& settings, std::span<const tensor_spec> inputs);
[[nodiscard]] std::unique_ptr<operation> make_reframe_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_reframe_cuda(const operation_request& request);

}  // namespace penstock

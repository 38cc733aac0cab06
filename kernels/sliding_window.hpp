#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/operation.hpp"
#include "kernels/session.hpp"
#include "kernels/tensor.hpp"

namespace penstock {

/// The last `length` steps of a session, at each of its steps. Shared by the operators with such a window.
///
/// A window is folded from two parts, the end of one stretch of `length` steps and the beginning of the next, each of
/// which grows by one step at a time (M. van Herk, Pattern Recognition Letters 13, 1992). Nothing is ever subtracted,
/// so nothing drifts, and a NaN leaves with its step.
struct sliding_window {
  std::int64_t length = 1;
  bool includes_current = false;  ///< the window ends with the step itself, not with the one before it
  bool whole_frames = false;      ///< a step is a frame
  tensor_spec input;              ///< f32

  [[nodiscard]] std::int64_t channels() const noexcept {
    return whole_frames ? input.elements() : input.elements() / input.shape.front();
  }
  /// Maximum steps of a frame of this batch.
  [[nodiscard]] std::int64_t steps(const batch_extent& extent) const noexcept {
    return whole_frames ? 1 : input.variable ? extent.leading : input.shape.front();
  }
  /// Steps of the state.
  [[nodiscard]] std::int64_t kept() const noexcept { return includes_current && length > 1 ? length - 1 : length; }
  [[nodiscard]] std::size_t state_bytes() const noexcept {
    return session_history<float>::state_bytes(kept(), channels());
  }
  [[nodiscard]] session_history<float> history(const operation_arguments& arguments) const noexcept {
    return {.input = static_cast<const float*>(arguments.inputs[0]),
            .session = arguments.session,
            .pitch = input.elements(arguments.extent.leading),
            .channels = channels(),
            .length = kept()};
  }
};

}  // namespace penstock

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "kernels/operation.hpp"
#include "kernels/operator_checks.hpp"
#include "kernels/tensor.hpp"

namespace penstock {

/// The rows of a tensor along one of its axes. In a batch there are outer · inner of them: each of the `inner` that
/// begin beside each other has its elements `inner` apart.
struct axis_rows {
  tensor_spec input;
  std::size_t axis = 0;

  [[nodiscard]] bool is_last() const noexcept { return axis + 1 == input.shape.size(); }
  /// One of them, as a frame of its own.
  [[nodiscard]] tensor_spec row() const {
    return {.type = input.type, .shape = {input.shape[axis]}, .variable = input.variable && axis == 0};
  }
  /// Elements of a row in this batch.
  [[nodiscard]] std::int64_t length(const batch_extent& extent) const noexcept {
    return input.variable && axis == 0 ? extent.leading : input.shape[axis];
  }
  [[nodiscard]] std::int64_t outer(const batch_extent& extent) const noexcept {
    std::int64_t count = extent.frames;
    for (std::size_t before = 0; before < axis; ++before) {
      count *= input.variable && before == 0 ? extent.leading : input.shape[before];
    }
    return count;
  }
  [[nodiscard]] std::int64_t inner() const noexcept {
    std::int64_t count = 1;
    for (std::size_t behind = axis + 1; behind < input.shape.size(); ++behind) {
      count *= input.shape[behind];
    }
    return count;
  }
  /// The input with this axis before all others.
  [[nodiscard]] tensor_spec moved_to_front() const {
    tensor_spec made = input;
    made.shape.erase(made.shape.begin() + static_cast<std::ptrdiff_t>(axis));
    made.shape.insert(made.shape.begin(), input.shape[axis]);
    return made;
  }
};

/// Bytes up to the next address in a scratch that another buffer may have.
[[nodiscard]] constexpr std::size_t aligned_scratch(std::size_t bytes) noexcept {
  return (bytes + 255) / 256 * 256;
}

/// An operator that works on rows. Its parse_NAME and make_NAME_… know the last axis only; what is here lets its rows
/// lie along the axis that the parameter `axis` names, the last by default, which it must be with several inputs.
///
/// On the host a few rows at a time are put together in the scratch, where they stay in the cache; on CUDA all of them,
/// by a transposition before the operator and, if its results lie along the axis, one behind it.
struct row_operator {
  std::string_view name;
  /// Its results lie along the axis, where the row was; else they are the last axes of the output, behind the input's
  /// others.
  bool keeps_axis = false;
  tensor_spec (*infer)(const parameters& settings, std::span<const tensor_spec> inputs) = nullptr;
  make_operation make = nullptr;
};

/// Throws parameter_error.
[[nodiscard]] tensor_spec infer_along_axis(const row_operator& rows, const parameters& settings,
                                           std::span<const tensor_spec> inputs);
[[nodiscard]] std::unique_ptr<operation> make_along_axis_host(const row_operator& rows,
                                                              const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_along_axis_cuda(const row_operator& rows,
                                                              const operation_request& request);

/// An operator that keeps state along the steps of a session. Its parse_NAME, NAME_session and make_NAME_… know time
/// as the first axis only; what is here lets the parameter `axis` name another one, of frames of a fixed shape. That is
/// moved to the front before the operator, and the time of its results back behind it.
struct step_operator {
  std::string_view name;
  /// The first so many axes of its results stand where time was: 2 for rows of steps, 0 for the results of a frame.
  std::size_t time_axes = 1;
  tensor_spec (*infer)(const parameters& settings, std::span<const tensor_spec> inputs) = nullptr;
  std::optional<session_traits> (*session)(const parameters& settings, std::span<const tensor_spec> inputs) = nullptr;
  make_operation make = nullptr;
};

/// As operator_definition::session; none for settings with which it keeps no state, whatever `axis` is. Throws
/// parameter_error.
[[nodiscard]] std::optional<session_traits> traits_along_session(const step_operator& steps, const parameters& settings,
                                                                 std::span<const tensor_spec> inputs);
/// Where traits_along_session gives some. Throws parameter_error.
[[nodiscard]] tensor_spec infer_along_session(const step_operator& steps, const parameters& settings,
                                              std::span<const tensor_spec> inputs);
/// The same.
[[nodiscard]] std::unique_ptr<operation> make_along_session_host(const step_operator& steps,
                                                                 const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_along_session_cuda(const step_operator& steps,
                                                                 const operation_request& request);

/// The order of four axes whose second and third change places.
inline constexpr std::array<std::size_t, 4> middle_exchanged{0, 2, 1, 3};

/// The operation of a step_operator on either backend. turn(stream, from, to, sizes, element) exchanges the second and
/// the third of the four axes that have these sizes.
template <class Turn>
class along_session final : public operation {
 public:
  /// `by_step` is for time.moved_to_front(), of which `result` is the output.
  along_session(const axis_rows& time, std::size_t time_axes, const tensor_spec& result, std::int64_t max_frames,
                std::unique_ptr<operation> by_step, Turn turn)
      : sizes_{1, time.outer({.frames = 1}), time.length({}), time.inner()},
        element_{size_of(time.input.type)},
        result_element_{size_of(result.type)},
        by_step_{std::move(by_step)},
        turn_{std::move(turn)},
        results_at_{aligned_scratch(static_cast<std::size_t>(max_frames) * time.input.bytes())} {
    std::int64_t steps = 1;
    for (std::size_t at = 0; at < time_axes; ++at) {
      steps *= result.shape[at];
    }
    result_sizes_ = {1, steps, sizes_[1], result.elements() / (steps * sizes_[1])};
    scratch_at_ =
        results_at_ + (moves_results() ? aligned_scratch(static_cast<std::size_t>(max_frames) * result.bytes()) : 0);
  }

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override { return scratch_at_ + by_step_->scratch_bytes(); }
  [[nodiscard]] std::size_t state_bytes() const noexcept override { return by_step_->state_bytes(); }
  [[nodiscard]] std::size_t own_bytes() const noexcept override { return by_step_->own_bytes(); }
  [[nodiscard]] std::string note() const override { return by_step_->note(); }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    const std::int64_t frames = arguments.extent.frames;
    auto* const scratch = static_cast<std::byte*>(arguments.scratch);
    if (const fault failed = turn_(stream, arguments.inputs[0], scratch, of(frames, sizes_), element_)) {
      return failed;
    }
    operation_arguments of_steps = arguments;
    const void* const inputs[] = {scratch};
    of_steps.inputs = inputs;
    of_steps.output = moves_results() ? scratch + results_at_ : arguments.output;
    of_steps.scratch = scratch + scratch_at_;
    of_steps.extent = {.frames = frames, .leading = sizes_[2]};
    if (const fault failed = by_step_->run(stream, of_steps); failed || !moves_results()) {
      return failed;
    }
    return turn_(stream, scratch + results_at_, arguments.output, of(frames, result_sizes_), result_element_);
  }

 private:
  using sizes = std::array<std::int64_t, 4>;

  [[nodiscard]] static sizes of(std::int64_t frames, sizes frame) noexcept {
    frame[0] = frames;
    return frame;
  }
  [[nodiscard]] bool moves_results() const noexcept { return result_sizes_[1] > 1; }

  const sizes sizes_;  ///< of a frame: 1, the axes before time, time, those behind it
  sizes result_sizes_{};
  const std::size_t element_;  ///< bytes
  const std::size_t result_element_;
  const std::unique_ptr<operation> by_step_;
  const Turn turn_;
  const std::size_t results_at_;  ///< bytes into the scratch, behind the steps
  std::size_t scratch_at_ = 0;    ///< of the operator's own
};

/// `turn` as along_session has it.
template <class Turn>
[[nodiscard]] std::unique_ptr<operation> make_along_session(const step_operator& steps,
                                                            const operation_request& request, Turn turn) {
  const axis_rows time{request.inputs[0], parse_axis(request.settings, request.inputs[0], 0)};
  if (time.axis == 0) {
    return steps.make(request);
  }
  const std::array<tensor_spec, 1> moved{time.moved_to_front()};
  std::unique_ptr<operation> by_step = steps.make(
      {.settings = request.settings, .inputs = moved, .max_frames = request.max_frames, .tuned = request.tuned});
  if (time.outer({.frames = 1}) == 1) {
    return by_step;  // what lies before time is of one element: nothing has to move
  }
  return std::make_unique<along_session<Turn>>(time, steps.time_axes, steps.infer(request.settings, moved),
                                               request.max_frames, std::move(by_step), std::move(turn));
}

}  // namespace penstock

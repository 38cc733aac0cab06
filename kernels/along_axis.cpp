#include "kernels/along_axis.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "kernels/operator_checks.hpp"

namespace penstock {
namespace {

/// What `ask` gives for the input with time first. An error speaks of the input as it is. It does not end with the
/// advice to take a "max N", since another axis than that can't be time.
template <class Ask>
auto asked_with_time_first(const axis_rows& time, const Ask& ask) {
  const std::array<tensor_spec, 1> moved{time.moved_to_front()};
  try {
    return ask(std::span<const tensor_spec>(moved));
  } catch (const parameter_error& error) {
    std::string message = error.what();
    const std::string text = moved.front().text();
    if (const std::size_t at = message.find(text); time.axis != 0 && at != message.npos) {
      message.replace(at, text.size(), time.input.text() + " along axis " + std::to_string(time.axis));
    }
    if (const std::size_t at = message.rfind(", or "); time.axis != 0 && message.find("\"max ", at) != message.npos) {
      message.resize(at);
    }
    throw parameter_error(error.field, message);
  }
}

}  // namespace

tensor_spec infer_along_axis(const row_operator& rows, const parameters& settings,
                             std::span<const tensor_spec> inputs) {
  if (inputs.empty()) {
    return rows.infer(settings, inputs);
  }
  const axis_rows along{inputs.front(), parse_axis(settings, inputs.front(), -1)};
  if (along.is_last() || inputs.size() > 1) {
    tensor_spec made = rows.infer(settings, inputs);
    if (!along.is_last()) {
      throw parameter_error("axis", "must be the last one with several inputs; 'transpose' puts axes in another order");
    }
    return made;
  }
  tensor_spec made;
  try {
    const std::array<tensor_spec, 1> row{along.row()};
    made = rows.infer(settings, row);
  } catch (const parameter_error& error) {
    if (error.field != "from") {
      throw;
    }
    throw parameter_error(error.field,
                          error.what() + (" along axis " + std::to_string(along.axis)) + " of " + along.input.text());
  }
  auto extents = along.input.shape;
  const auto removed = extents.erase(extents.begin() + static_cast<std::ptrdiff_t>(along.axis));
  extents.insert(rows.keeps_axis ? removed : extents.end(), made.shape.begin(), made.shape.end());
  return {.type = made.type,
          .shape = std::move(extents),
          .variable = along.axis == 0 ? made.variable : along.input.variable};
}

std::optional<session_traits> traits_along_session(const step_operator& steps, const parameters& settings,
                                                   std::span<const tensor_spec> inputs) {
  const axis_rows time{sole_input(steps.name, inputs), parse_axis(settings, inputs.front(), 0)};
  auto traits =
      asked_with_time_first(time, [&](std::span<const tensor_spec> moved) { return steps.session(settings, moved); });
  if (traits && time.axis != 0 && time.input.variable) {
    throw parameter_error("axis", "must be 0 for " + time.input.text() +
                                      ": of frames of any length time is the first dimension; for another one the "
                                      "pipeline's input has a fixed shape");
  }
  if (traits) {
    traits->axis = time.axis;
  }
  return traits;
}

tensor_spec infer_along_session(const step_operator& steps, const parameters& settings,
                                std::span<const tensor_spec> inputs) {
  const axis_rows time{inputs.front(), parse_axis(settings, inputs.front(), 0)};
  tensor_spec made =
      asked_with_time_first(time, [&](std::span<const tensor_spec> moved) { return steps.infer(settings, moved); });
  const auto begin = made.shape.begin();
  const auto end_of_time = begin + static_cast<std::ptrdiff_t>(steps.time_axes);
  std::rotate(begin, end_of_time, end_of_time + static_cast<std::ptrdiff_t>(time.axis));
  return made;
}

}  // namespace penstock

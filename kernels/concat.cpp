#include "kernels/concat.hpp"

#include <limits>
#include <string>

#include "kernels/several_inputs.hpp"

namespace penstock {
namespace {

std::size_t parse_axis(const parameters& settings, const tensor_spec& input) {
  const std::int64_t axis = settings.integer("axis", 0);
  const auto axes = static_cast<std::int64_t>(input.shape.size());
  if (axis < -axes || axis >= axes) {
    throw parameter_error("axis", "must be an axis of " + input.text() + ", " + std::to_string(-axes) + " to " +
                                      std::to_string(axes - 1) + ", not " + std::to_string(axis));
  }
  const auto from_first = static_cast<std::size_t>(axis < 0 ? axis + axes : axis);
  if (input.variable && from_first == 0) {
    throw parameter_error("axis", "must be one behind the leading \"max N\" of " + input.text());
  }
  return from_first;
}

void require_same_but_along(std::size_t axis, const tensor_spec& first, const tensor_spec& other) {
  tensor_spec expected = first;
  if (axis < other.shape.size()) {
    expected.shape[axis] = other.shape[axis];
  }
  if (other != expected) {
    throw parameter_error("from", "'concat' takes inputs of one element type and of one shape but along axis " +
                                      std::to_string(axis) + ", not " + first.text() + " and " + other.text());
  }
}

}  // namespace

concat_settings parse_concat(const parameters& settings, std::span<const tensor_spec> inputs) {
  require_several_inputs("concat", inputs, std::numeric_limits<std::size_t>::max());
  const tensor_spec& first = inputs.front();
  const std::size_t axis = parse_axis(settings, first);
  concat_settings parsed;
  parsed.output = first;
  parsed.output.shape[axis] = 0;
  std::size_t behind = size_of(first.type);
  for (std::size_t after = axis + 1; after < first.shape.size(); ++after) {
    behind *= static_cast<std::size_t>(first.shape[after]);
  }
  for (const tensor_spec& input : inputs) {
    require_same_but_along(axis, first, input);
    parsed.output.shape[axis] += input.shape[axis];
    parsed.chunks.push_back(static_cast<std::size_t>(input.shape[axis]) * behind);
    parsed.pitch += parsed.chunks.back();
  }
  parsed.leading = axis == 0 ? 1 : first.shape.front();
  for (std::size_t before = 1; before < axis; ++before) {
    parsed.inner *= first.shape[before];
  }
  return parsed;
}

tensor_spec infer_concat(const parameters& settings, std::span<const tensor_spec> inputs) {
  return parse_concat(settings, inputs).output;
}

}  // namespace penstock

#include "kernels/fold.hpp"

#include <string_view>

#include "kernels/operation_input.hpp"
#include "kernels/several_inputs.hpp"

namespace penstock {
namespace {

fold_settings parse_inputs(std::string_view operator_name, std::span<const tensor_spec> inputs) {
  require_several_inputs(operator_name, inputs, fold_most_inputs);
  require_element_type(operator_name, inputs.front(), {element_type::f32, element_type::cf32});
  require_equal_inputs(operator_name, inputs);
  return {.combine = fold_settings::combination::sum,
          .complex_input = is_complex(inputs.front().type),
          .spec = inputs.front()};
}

}  // namespace

fold_settings parse_add(std::span<const tensor_spec> inputs) {
  return parse_inputs("add", inputs);
}

fold_settings parse_multiply(const parameters& settings, std::span<const tensor_spec> inputs) {
  fold_settings parsed = parse_inputs("multiply", inputs);
  const bool conjugate = settings.flag("conjugate", false);
  if (conjugate && !parsed.complex_input) {
    throw parameter_error("conjugate", "is for cf32 inputs, not for " + parsed.spec.text());
  }
  parsed.combine = conjugate ? fold_settings::combination::conjugate_product : fold_settings::combination::product;
  return parsed;
}

tensor_spec infer_add(const parameters& /*settings*/, std::span<const tensor_spec> inputs) {
  return parse_add(inputs).spec;
}

tensor_spec infer_multiply(const parameters& settings, std::span<const tensor_spec> inputs) {
  return parse_multiply(settings, inputs).spec;
}

}  // namespace penstock

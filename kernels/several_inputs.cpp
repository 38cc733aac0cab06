#include "kernels/several_inputs.hpp"

#include <string>

namespace penstock {

void require_several_inputs(std::string_view operator_name, std::span<const tensor_spec> inputs, std::size_t most) {
  const std::string name = "'" + std::string{operator_name} + "'";
  if (inputs.size() < 2) {
    throw parameter_error("from", name + " takes two inputs or more, not " + std::to_string(inputs.size()));
  }
  if (inputs.size() > most) {
    throw parameter_error("from", name + " takes at most " + std::to_string(most) + " inputs, not " +
                                      std::to_string(inputs.size()) + "; a second stage can take the others");
  }
}

void require_equal_inputs(std::string_view operator_name, std::span<const tensor_spec> inputs) {
  for (const tensor_spec& input : inputs) {
    if (input != inputs.front()) {
      throw parameter_error("from", "'" + std::string{operator_name} +
                                        "' takes inputs of one element type and one shape, not " +
                                        inputs.front().text() + " and " + input.text());
    }
  }
}

}  // namespace penstock

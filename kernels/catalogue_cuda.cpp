#include <string_view>
#include <utility>

#include "kernels/kernel.hpp"
#include "kernels/model.hpp"
#include "kernels/operators.hpp"
#include "kernels/plugin.hpp"

namespace penstock {

namespace {

#define PENSTOCK_ALONG_AXIS(name, keeps_axis)                                                          \
  tensor_spec infer_##name##_row(const parameters& settings, std::span<const tensor_spec> inputs) {    \
    return output_of(&parse_##name, #name, settings, inputs);                                          \
  }                                                                                                    \
  std::unique_ptr<operation> make_##name##_along_axis_cuda(const operation_request& request) {         \
    return make_along_axis_cuda({#name, keeps_axis, infer_##name##_row, make_##name##_cuda}, request); \
  }
PENSTOCK_ROW_OPERATORS(PENSTOCK_ALONG_AXIS)

#define PENSTOCK_ALONG_SESSION(name, time_axes, otherwise)                                                          \
  tensor_spec infer_##name##_steps(const parameters& settings, std::span<const tensor_spec> inputs) {               \
    return output_of(&parse_##name, #name, settings, inputs);                                                       \
  }                                                                                                                 \
  constexpr step_operator name##_steps{#name, time_axes, infer_##name##_steps, name##_session, make_##name##_cuda}; \
  std::unique_ptr<operation> make_##name##_along_session(const operation_request& request) {                        \
    return traits_along_session(name##_steps, request.settings, request.inputs)                                     \
               ? make_along_session_cuda(name##_steps, request)                                                     \
               : make_##name##otherwise##_cuda(request);                                                            \
  }
PENSTOCK_STEP_OPERATORS(PENSTOCK_ALONG_SESSION)

}  // namespace

make_operation find_cuda_operation(std::string_view name) noexcept {
#define PENSTOCK_IMPLEMENTATION(name, session, overwrites, ...) {#name, &make_##name##_cuda},
  static constexpr std::pair<std::string_view, make_operation> catalogue[] = {
      PENSTOCK_OPERATORS(PENSTOCK_IMPLEMENTATION)};
#define PENSTOCK_ROW_IMPLEMENTATION(name, keeps_axis) {#name, &make_##name##_along_axis_cuda},
#define PENSTOCK_STEP_IMPLEMENTATION(name, time_axes, otherwise) {#name, &make_##name##_along_session},
  // The first of a name is the one: detect is in all of them.
  static constexpr std::pair<std::string_view, make_operation> along_axis[] = {
      PENSTOCK_STEP_OPERATORS(PENSTOCK_STEP_IMPLEMENTATION) PENSTOCK_ROW_OPERATORS(PENSTOCK_ROW_IMPLEMENTATION)};
  if (name == "kernel") {
    return &make_kernel_cuda;
  }
  if (name == "model") {
    return &make_model_cuda;
  }
  if (name == "plugin") {
    return &make_plugin_cuda;
  }
  for (const auto& [known, make] : along_axis) {
    if (known == name) {
      return make;
    }
  }
  for (const auto& [known, make] : catalogue) {
    if (known == name) {
      return make;
    }
  }
  return nullptr;
}

}  // namespace penstock

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
  std::unique_ptr<operation> make_##name##_along_axis(const operation_request& request) {              \
    return make_along_axis_cuda({#name, keeps_axis, infer_##name##_row, make_##name##_cuda}, request); \
  }
PENSTOCK_ROW_OPERATORS(PENSTOCK_ALONG_AXIS)

}  // namespace

make_operation find_cuda_operation(std::string_view name) noexcept {
#define PENSTOCK_IMPLEMENTATION(name, session, overwrites, ...) {#name, &make_##name##_cuda},
  static constexpr std::pair<std::string_view, make_operation> catalogue[] = {
      PENSTOCK_OPERATORS(PENSTOCK_IMPLEMENTATION)};
#define PENSTOCK_ROW_IMPLEMENTATION(name, keeps_axis) {#name, &make_##name##_along_axis},
  static constexpr std::pair<std::string_view, make_operation> along_axis[] = {
      PENSTOCK_ROW_OPERATORS(PENSTOCK_ROW_IMPLEMENTATION)};
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

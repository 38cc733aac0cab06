#include <string_view>
#include <utility>

#include "kernels/kernel.hpp"
#include "kernels/model.hpp"
#include "kernels/operators.hpp"
#include "kernels/plugin.hpp"

namespace penstock {

make_operation find_cuda_operation(std::string_view name) noexcept {
#define PENSTOCK_IMPLEMENTATION(name, session, overwrites, ...) {#name, &make_##name##_cuda},
  static constexpr std::pair<std::string_view, make_operation> catalogue[] = {
      PENSTOCK_OPERATORS(PENSTOCK_IMPLEMENTATION)};
  if (name == "kernel") {
    return &make_kernel_cuda;
  }
  if (name == "model") {
    return &make_model_cuda;
  }
  if (name == "plugin") {
    return &make_plugin_cuda;
  }
  for (const auto& [known, make] : catalogue) {
    if (known == name) {
      return make;
    }
  }
  return nullptr;
}

}  // namespace penstock

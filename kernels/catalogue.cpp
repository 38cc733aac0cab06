#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <utility>

#include "kernels/kernel.hpp"
#include "kernels/map.hpp"
#include "kernels/model.hpp"
#include "kernels/operation.hpp"
#include "kernels/operator_checks.hpp"
#include "kernels/operators.hpp"
#include "kernels/plugin.hpp"

namespace penstock {
namespace {

template <typename... Key>
constexpr std::array<std::string_view, sizeof...(Key)> keys(Key... key) {
  return {key...};
}

#define PENSTOCK_KEYS(name, session, overwrites, ...) constexpr auto name##_keys = keys(__VA_ARGS__);
PENSTOCK_OPERATORS(PENSTOCK_KEYS)

#define PENSTOCK_INFERENCE(name, session, overwrites, ...)                                    \
  tensor_spec infer_##name(const parameters& settings, std::span<const tensor_spec> inputs) { \
    return output_of(&parse_##name, #name, settings, inputs);                                 \
  }
PENSTOCK_OPERATORS(PENSTOCK_INFERENCE)

using tunable_numbers = std::vector<tunable_number> (*)(const parameters&, std::span<const tensor_spec>);
struct tunable_operator {
  std::string_view name;
  tunable_numbers numbers;
};
constexpr tunable_operator tunable_operators[] = {{"affine", affine_numbers},
                                                  {"detect", detect_numbers},
                                                  {"mix", mix_numbers},
                                                  {"moving_zscore", moving_zscore_numbers}};

constexpr tunable_numbers tunable_of(std::string_view name) {
  for (const tunable_operator& each : tunable_operators) {
    if (each.name == name) {
      return each.numbers;
    }
  }
  return nullptr;
}

#define PENSTOCK_DEFINITION(name, session, overwrites, ...) \
  {#name, name##_keys, infer_##name, make_##name##_host, session, overwrites, nullptr, tunable_of(#name)},
constexpr operator_definition operators_along_last[] = {PENSTOCK_OPERATORS(PENSTOCK_DEFINITION)};

#define PENSTOCK_ALONG_AXIS(name, keeps_axis)                                                              \
  constexpr row_operator name##_rows{#name, keeps_axis, infer_##name, make_##name##_host};                 \
  tensor_spec infer_##name##_along_axis(const parameters& settings, std::span<const tensor_spec> inputs) { \
    return infer_along_axis(name##_rows, settings, inputs);                                                \
  }                                                                                                        \
  std::unique_ptr<operation> make_##name##_along_axis_host(const operation_request& request) {             \
    return make_along_axis_host(name##_rows, request);                                                     \
  }
PENSTOCK_ROW_OPERATORS(PENSTOCK_ALONG_AXIS)

#define PENSTOCK_ALONG_SESSION(name, time_axes, otherwise)                                                    \
  constexpr step_operator name##_steps{#name, time_axes, infer_##name, name##_session, make_##name##_host};   \
  std::optional<session_traits> name##_session_along_axis(const parameters& settings,                         \
                                                          std::span<const tensor_spec> inputs) {              \
    return traits_along_session(name##_steps, settings, inputs);                                              \
  }                                                                                                           \
  tensor_spec infer_##name##_along_session(const parameters& settings, std::span<const tensor_spec> inputs) { \
    return name##_session_along_axis(settings, inputs) ? infer_along_session(name##_steps, settings, inputs)  \
                                                       : infer_##name##otherwise(settings, inputs);           \
  }                                                                                                           \
  std::unique_ptr<operation> make_##name##_along_session(const operation_request& request) {                  \
    return name##_session_along_axis(request.settings, request.inputs)                                        \
               ? make_along_session_host(name##_steps, request)                                               \
               : make_##name##otherwise##_host(request);                                                      \
  }
PENSTOCK_STEP_OPERATORS(PENSTOCK_ALONG_SESSION)

constexpr operator_definition& entry_of(std::span<operator_definition> all, std::string_view name) {
  return *std::find_if(all.begin(), all.end(), [name](const operator_definition& each) { return each.name == name; });
}

constexpr auto with_axes() {
  auto made = std::to_array(operators_along_last);
#define PENSTOCK_WITH_AXIS(row_name, keeps_axis)                   \
  entry_of(made, #row_name).infer = infer_##row_name##_along_axis; \
  entry_of(made, #row_name).make_host = make_##row_name##_along_axis_host;
  PENSTOCK_ROW_OPERATORS(PENSTOCK_WITH_AXIS)
#define PENSTOCK_WITH_SESSION_AXIS(step_name, time_axes, otherwise)        \
  entry_of(made, #step_name).infer = infer_##step_name##_along_session;    \
  entry_of(made, #step_name).make_host = make_##step_name##_along_session; \
  entry_of(made, #step_name).session = step_name##_session_along_axis;
  PENSTOCK_STEP_OPERATORS(PENSTOCK_WITH_SESSION_AXIS)
  return made;
}
constexpr auto all_operators = with_axes();

// What users bring. The host runs expressions, models and plug-ins; a GPU runs expressions as kernels.
constexpr auto kernel_keys =
    keys("file", "entry", "output", "outputs", "grid", "block", "cluster", "shared", "args", "values", "state",
         "options", "include", "sha256", "single_pass", "host", "tolerance");
constexpr auto map_keys = keys("expr", "inputs", "values", "output");
constexpr auto model_keys = keys("file", "inputs", "runtime", "sha256", "tolerance");
constexpr auto plugin_keys = keys("file", "entry", "values", "sha256", "tolerance");
constexpr operator_definition user_operators[] = {
    {"kernel", kernel_keys, infer_kernel, make_kernel_host, kernel_session, false, kernel_outputs},
    {"map", map_keys, infer_map, make_map_host, nullptr, true, nullptr, map_numbers},
    {"model", model_keys, infer_model, make_model_host, model_session, false, model_outputs},
    {"plugin", plugin_keys, infer_plugin, make_plugin_host, plugin_session, false, plugin_outputs}};

}  // namespace

std::span<const operator_definition> operator_catalogue() noexcept {
  return all_operators;
}

std::vector<std::string_view> operator_names() {
  std::vector<std::string_view> names{"map"};
  for (const operator_definition& each : all_operators) {
    names.push_back(each.name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::optional<std::size_t> axis_of(const operator_definition& definition, const parameters& settings,
                                   std::span<const tensor_spec> inputs) {
  if (definition.session != nullptr) {
    if (const auto traits = definition.session(settings, inputs)) {
      return traits->whole_frames ? std::nullopt : std::optional(traits->axis);
    }
  }
  // What keeps state with other settings works on each element by itself with these, but for rows.
  if ((definition.session == nullptr || definition.name == detect_rows.name) &&
      std::find(definition.keys.begin(), definition.keys.end(), "axis") != definition.keys.end()) {
    return parse_axis(settings, inputs[0], definition.name == "concat" ? 0 : -1);
  }
  return std::nullopt;
}

void set_number(parameters& settings, const std::string& name, double value) {
  if (!settings.table("values").has(name)) {
    settings.set(name, value);
    return;
  }
  auto values = std::make_shared<parameters>(settings.table("values"));
  values->set(name, value);
  settings.set("values", std::shared_ptr<const parameters>(std::move(values)));
}

const operator_definition* find_operator(std::string_view name) noexcept {
  const auto named = [name](const operator_definition& known) { return known.name == name; };
  if (const auto* found = std::find_if(std::begin(all_operators), std::end(all_operators), named);
      found != std::end(all_operators)) {
    return found;
  }
  const auto* const found = std::find_if(std::begin(user_operators), std::end(user_operators), named);
  return found == std::end(user_operators) ? nullptr : found;
}

}  // namespace penstock

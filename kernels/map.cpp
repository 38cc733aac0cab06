#include "kernels/map.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <stdexcept>
#include <utility>

#include "base/configuration_error.hpp"
#include "kernels/operator_checks.hpp"
#include "kernels/size_expression.hpp"

namespace penstock {
namespace {

constexpr std::size_t most_inputs = 8;

using name_table = std::map<std::string, map_value, std::less<>>;

bool has_trailing_extents(const tensor_spec& input, const tensor_spec& frame) noexcept {
  return !input.variable && input.shape.size() < frame.shape.size() &&
         std::equal(input.shape.rbegin(), input.shape.rend(), frame.shape.rbegin());
}

void check_inputs(std::span<const tensor_spec> inputs) {
  if (inputs.empty() || inputs.size() > most_inputs) {
    throw parameter_error("from", "operator 'map' takes 1 to 8 inputs, not " + std::to_string(inputs.size()));
  }
  using enum element_type;
  const tensor_spec& frame = inputs.front();
  for (const tensor_spec& input : inputs) {
    require_element_type("map", input, {f32, cf32, u8, i8, i16, i32, cu8, ci8, ci16});
    if ((input.shape != frame.shape || input.variable != frame.variable) && !has_trailing_extents(input, frame)) {
      throw parameter_error(
          "from", "operator 'map' takes inputs of one shape, or with the trailing extents of the first, not " +
                      frame.text() + " and " + input.text());
    }
  }
}

/// Makes the steps of a map, and of those that it took in.
class map_reader {
 public:
  map_reader(const parameters& settings, std::span<const tensor_spec> inputs)
      : inputs_(inputs), sources_(settings.texts(settings.has("sources") ? "sources" : "from")) {}

  [[nodiscard]] map_settings read(const parameters& settings) {
    map_settings made;
    made.inputs.assign(inputs_.begin(), inputs_.end());
    made.output = inputs_.front();
    made.result = value_of(settings, made.output.type);
    made.steps = builder_.finish(made.result);
    made.numbers = numbers_;
    return made;
  }

 private:
  /// With an imaginary part if `type`, which is set, is complex.
  map_value value_of(const parameters& settings, element_type& type) {
    map_value value;
    try {
      value = parse_map_expression(settings.text("expr"), names_of(settings), builder_);
      type = output_type(settings, value);
      if (penstock::is_complex(type) && !value.is_complex()) {
        value.im = builder_.number(0.0);
      }
    } catch (const expression_error& error) {
      throw parameter_error("expr", error.what());
    } catch (const std::length_error& error) {  // `values` are operations too
      throw parameter_error("expr", error.what());
    }
    return value;
  }

  static element_type output_type(const parameters& settings, const map_value& value) {
    const parameters& output = settings.table("output");
    for (const auto& [key, given] : output) {
      if (key != "dtype") {
        throw parameter_error(
            "output", "has '" + key + "'; a map's output has the shape of its first input and knows dtype alone");
      }
    }
    const std::string name = output.text("dtype", value.is_complex() ? "cf32" : "f32");
    constexpr std::array<std::string_view, 6> allowed{"f32", "cf32", "u8", "i8", "i16", "i32"};
    if (std::find(allowed.begin(), allowed.end(), name) == allowed.end()) {
      throw parameter_error("output", "has the dtype \"" + name + "\"; allowed are f32, cf32, u8, i8, i16 and i32");
    }
    if (value.is_complex() && name != "cf32") {
      throw parameter_error(
          "output", "has the dtype \"" + name + "\", and the expression is complex: take re, im, abs or arg of it");
    }
    return *element_type_of(name);
  }

  name_table names_of(const parameters& settings) {
    const std::vector<std::string> from = settings.texts("from");
    const parameters& given = settings.table("inputs");
    const parameters& values = settings.table("values");
    name_table names;
    add_places(names);
    const bool is_tuned = settings.flag("tuned", false);
    // Each source once, however many names it has: what made it, fused maps too, is parsed then.
    name_table made;
    const auto value_from = [&](const std::string& source) {
      const auto found = made.find(source);
      return found != made.end() ? found->second : made.emplace(source, input_named(settings, source)).first->second;
    };
    if (from.size() == 1 || (from.empty() && inputs_.size() == 1)) {
      const map_value only = value_from(from.empty() ? "" : from.front());
      names["x"] = only;
      if (only.is_complex()) {
        names["re"] = {only.re};
        names["im"] = {only.im};
      }
    }
    for (const std::string& source : from) {
      if (is_map_name(source)) {
        names[source] = value_from(source);
      }
    }
    for (const auto& [name, value] : values) {
      check_name("values", name);
      if (std::holds_alternative<std::vector<double>>(value)) {
        throw parameter_error("values", "'" + name + "' is an array; a map takes numbers");
      }
      const auto number = static_cast<double>(number_in(values, name));
      names[name] = {is_tuned ? builder_.add(map_operation::tuned, static_cast<int>(numbers_++))
                              : builder_.number(number)};
    }
    for (const auto& [name, value] : given) {
      check_name("inputs", name);
      if (values.has(name)) {
        throw parameter_error("inputs", "has '" + name + "', and so has `values`");
      }
      const std::string source = given.text(name);
      if (std::find(from.begin(), from.end(), source) == from.end()) {
        throw parameter_error("inputs",
                              "'" + name + "' is \"" + source + "\", which the stage does not read" +
                                  suggestion(source, std::vector<std::string_view>(from.begin(), from.end())));
      }
      names[name] = value_from(source);
    }
    return names;
  }

  static void check_name(const std::string& field, const std::string& name) {
    if (!is_map_name(name)) {
      throw parameter_error(field,
                            "has '" + name + "', which an expression can't call: a name has letters, digits and _");
    }
  }

  static float number_in(const parameters& values, const std::string& name) {
    try {
      return parse_f32(name, values.number(name));
    } catch (const parameter_error& error) {
      throw parameter_error("values", "'" + name + "' " + error.what());
    }
  }

  /// i0, i1, …, n0, n1, …
  void add_places(name_table& names) {
    const tensor_spec& frame = inputs_.front();
    for (std::size_t axis = 0; axis < frame.shape.size(); ++axis) {
      const std::string number = std::to_string(axis);
      names["i" + number] = {builder_.add(map_operation::index, static_cast<int>(axis))};
      names["n" + number] = {axis == 0 && frame.variable ? builder_.add(map_operation::length)
                                                         : builder_.number(static_cast<double>(frame.shape[axis]))};
    }
  }

  map_value input_named(const parameters& settings, const std::string& source) {
    const parameters& fused = settings.table("fused");
    if (fused.has(source)) {
      element_type type = element_type::f32;
      return value_of(fused.table(source), type);
    }
    const auto found = std::find(sources_.begin(), sources_.end(), source);
    const std::size_t place = found == sources_.end() ? 0 : static_cast<std::size_t>(found - sources_.begin());
    return builder_.load(static_cast<int>(place), penstock::is_complex(inputs_[place].type));
  }

  std::span<const tensor_spec> inputs_;
  std::vector<std::string> sources_;
  map_builder builder_;
  std::size_t numbers_ = 0;
};

}  // namespace

bool map_settings::goes_over_once() const noexcept {
  for (std::size_t input = 0; input < inputs.size(); ++input) {
    if (repeats(input)) {
      return false;
    }
  }
  return true;
}

map_settings parse_map(const parameters& settings, std::span<const tensor_spec> inputs) {
  check_inputs(inputs);
  return map_reader(settings, inputs).read(settings);
}

tensor_spec infer_map(const parameters& settings, std::span<const tensor_spec> inputs) {
  return parse_map(settings, inputs).output;
}

std::vector<tunable_number> map_numbers(const parameters& settings, std::span<const tensor_spec> inputs) {
  static_cast<void>(parse_map(settings, inputs));
  const parameters& values = settings.table("values");
  std::vector<tunable_number> numbers;
  for (const auto& [name, value] : values) {
    numbers.push_back({name, values.number(name)});
  }
  return numbers;
}

parameters map_with_names(const parameters& settings, const std::vector<std::string>& from) {
  parameters named = settings;
  named.set(settings.has("fused") ? "sources" : "from", from);
  return named;
}

}  // namespace penstock

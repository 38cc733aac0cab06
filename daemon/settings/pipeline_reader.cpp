#include "daemon/settings/pipeline_reader.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include "daemon/pipeline/check.hpp"
#include "daemon/settings/npy_array.hpp"
#include "daemon/settings/npy_parameter.hpp"
#include "daemon/settings/settings_table.hpp"

namespace penstock {
namespace {

using std::chrono::nanoseconds;

constexpr std::int64_t max_extent = std::int64_t{1} << 40;
constexpr const char* shape_rule = "an array of whole numbers from 1, the first of which may be the string \"max N\"";

/// How messages call a table that has no name: "#1" is the first.
std::string numbered(std::size_t index) {
  return std::string("#").append(std::to_string(index + 1));
}

/// "max 512" → 512.
std::optional<std::int64_t> most_of(std::string_view text) {
  constexpr std::string_view prefix = "max ";
  if (!text.starts_with(prefix)) {
    return std::nullopt;
  }
  text.remove_prefix(prefix.size());
  std::int64_t value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && rest == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

void read_shape(settings_table& table, tensor_spec& into) {
  const toml::node* node = table.find("shape");
  if (node == nullptr) {
    table.refuse_key("shape", std::string("is missing; give it ") + shape_rule);
  }
  const auto* array = node->as_array();
  if (array == nullptr || array->empty()) {
    table.refuse_value("shape", *node, shape_rule);
  }
  for (const toml::node& element : *array) {
    std::optional<std::int64_t> extent = element.value_exact<std::int64_t>();
    if (const auto* text = element.as_string(); text != nullptr && into.shape.empty()) {
      extent = most_of(text->get());
      into.variable = true;
    }
    if (!extent || *extent < 1 || *extent > max_extent) {
      table.refuse_value("shape", element, shape_rule);
    }
    into.shape.push_back(*extent);
  }
}

void read_input(settings_table& pipeline, const configuration_place& place, tensor_spec& into) {
  const toml::node* node = pipeline.find("input");
  constexpr const char* allowed = "a table such as { dtype = \"cu8\", shape = [1024] }";
  if (node == nullptr) {
    pipeline.refuse_key("input", std::string("is missing; give it ") + allowed);
  }
  if (!node->is_table()) {
    pipeline.refuse_value("input", *node, allowed);
  }
  configuration_place own = place;
  own.position.line = pipeline.line_of("input");
  settings_table table(*node->as_table(), own, "input.");
  std::string type;
  table.read("dtype", element_names, type);
  if (type.empty()) {
    table.refuse_key("dtype", "is missing; give it the type of one element, such as \"f32\"");
  }
  into.type = element_type_of(type).value();
  read_shape(table, into);
  table.refuse_unknown();
}

void read_batch(settings_table& pipeline, const configuration_place& place, batch_limits& into, field_lines& lines) {
  const toml::node* node = pipeline.find("batch");
  if (node == nullptr) {
    return;
  }
  if (!node->is_table()) {
    pipeline.refuse_value("batch", *node, "a table such as { max_frames = 256, max_bytes = \"8 MiB\" }");
  }
  configuration_place own = place;
  own.position.line = pipeline.line_of("batch");
  settings_table table(*node->as_table(), own, "batch.");
  table.read("max_frames", std::int64_t{1}, std::int64_t{1} << 24, into.max_frames);
  table.read_size("max_bytes", 1, std::size_t{64} << 30U, into.max_bytes);
  table.read("max_delay", nanoseconds(0), std::chrono::minutes(1), into.max_delay);
  table.refuse_unknown();
  for (const char* key : {"max_frames", "max_bytes"}) {
    lines.set(field_lines::own, std::string("batch.") + key, table.line_of(key));
  }
}

std::vector<double> read_numbers(const settings_table& table, std::string_view key, const toml::array& array) {
  std::vector<double> numbers;
  for (const toml::node& element : array) {
    const auto number = element.is_number() ? element.value<double>() : std::nullopt;
    if (!number || !std::isfinite(*number)) {
      table.refuse_value(key, element, "an array of finite numbers");
    }
    numbers.push_back(*number);
  }
  return numbers;
}

parameters::value read_parameter(const settings_table& table, std::string_view key, const toml::node& node) {
  if (const auto* flag = node.as_boolean()) {
    return flag->get();
  }
  if (const auto* integer = node.as_integer()) {
    return integer->get();
  }
  if (const auto* number = node.as_floating_point(); number != nullptr && std::isfinite(number->get())) {
    return number->get();
  }
  if (const auto* text = node.as_string()) {
    return text->get();
  }
  if (const auto* array = node.as_array()) {
    return read_numbers(table, key, *array);
  }
  table.refuse_value(key, node, "true or false, a finite number, a string, or an array of numbers");
}

/// A parameter whose numbers stand in a .npy file beside the configuration; false when it is none.
bool read_npy_parameter(const settings_table& table, std::string_view key, const toml::node& node,
                        stage_declaration& into) {
  const auto* text = node.as_string();
  if (text == nullptr || !names_npy_file(into.op, key, text->get())) {
    return false;
  }
  const std::string imaginary = std::string(key) + "_imag";
  try {
    const std::filesystem::path file = std::filesystem::path(into.position.file).parent_path() / text->get();
    parameters given;
    set_from_npy_file(into.op, std::string(key), file, given);
    if (given.has(imaginary) && table.contents().contains(imaginary)) {
      throw npy_error("its numbers are complex, but " + imaginary + " is given too");
    }
    for (const auto& [name, value] : given) {
      into.settings.set(name, value);
    }
  } catch (const npy_error& error) {
    table.refuse_key(key, "\"" + text->get() + "\": " + error.what());
  }
  return true;
}

stage_declaration read_stage(const toml::table& given, configuration_place place, std::size_t index,
                             field_lines& lines) {
  place.position.line = given.source().begin.line;
  place.stage = numbered(index);
  if (const auto* name = given["name"].as_string()) {
    place.stage = name->get();
  }
  settings_table table(given, place, "");
  stage_declaration stage;
  stage.position = place.position;
  for (const char* key : {"name", "op"}) {
    if (table.find(key) == nullptr) {
      table.refuse_key(key, "is missing; each stage has a name and an op");
    }
  }
  table.read("name", stage.name);
  table.read("op", stage.op);
  table.read("from", stage.from);
  for (const auto& [key, node] : given) {
    lines.set(index, std::string(key.str()), key.source().begin.line);
    if (key == "name" || key == "op" || key == "from") {
      continue;
    }
    if (read_npy_parameter(table, key.str(), node, stage)) {
      lines.set(index, std::string(key.str()) + "_imag", key.source().begin.line);
    } else {
      stage.settings.set(std::string(key.str()), read_parameter(table, key.str(), node));
    }
  }
  return stage;
}

void read_stages(settings_table& table, const configuration_place& place, std::vector<stage_declaration>& into,
                 field_lines& lines) {
  const toml::node* node = table.find("stage");
  if (node == nullptr) {
    return;
  }
  const auto* array = node->as_array();
  if (array == nullptr || !array->is_homogeneous(toml::node_type::table)) {
    table.refuse_value("stage", *node, "[[pipeline.stage]] tables, in double brackets");
  }
  for (std::size_t index = 0; index < array->size(); ++index) {
    into.push_back(read_stage(*(*array)[index].as_table(), place, index, lines));
  }
}

pipeline_declaration read_pipeline(const toml::table& given, configuration_place place, std::size_t index) {
  place.position.line = given.source().begin.line;
  place.pipeline = numbered(index);
  if (const auto* name = given["name"].as_string()) {
    place.pipeline = name->get();
  }
  settings_table table(given, place, "");
  pipeline_declaration declared;
  declared.position = place.position;
  field_lines lines;
  if (table.find("name") == nullptr) {
    table.refuse_key("name", "is missing; each pipeline has a name");
  }
  table.read("name", declared.name);
  read_input(table, place, declared.input);
  read_batch(table, place, declared.batch, lines);
  table.read("priority", priority_names, declared.priority);
  table.read("overflow", overflow_names, declared.overflow);
  table.read("ordered", declared.ordered);
  table.read("outputs", declared.outputs);
  read_stages(table, place, declared.stages, lines);
  table.refuse_unknown();
  for (const auto& [key, node] : given) {
    lines.set(field_lines::own, std::string(key.str()), key.source().begin.line);
  }
  return check_pipeline(std::move(declared), lines);
}

}  // namespace

std::vector<pipeline_declaration> read_pipelines(const toml::node& pipelines, const std::string& file) {
  configuration_place place{{file, pipelines.source().begin.line}, "", "", "pipeline"};
  const auto* array = pipelines.as_array();
  if (array == nullptr || !array->is_homogeneous(toml::node_type::table)) {
    refuse(place, shown(pipelines) + " is given; allowed is [[pipeline]] tables, in double brackets");
  }
  place.field.clear();
  std::vector<pipeline_declaration> declared;
  for (std::size_t index = 0; index < array->size(); ++index) {
    pipeline_declaration next = read_pipeline(*(*array)[index].as_table(), place, index);
    for (const pipeline_declaration& other : declared) {
      if (other.name == next.name) {
        refuse({next.position, next.name, "", "name"},
               "a pipeline of this name is on line " + std::to_string(other.position.line) + " already");
      }
    }
    declared.push_back(std::move(next));
  }
  return declared;
}

}  // namespace penstock

#include "daemon/config/pipeline_text.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <type_traits>
#include <variant>

#include "base/guarded_file.hpp"
#include "base/quantity.hpp"
#include "base/sha256.hpp"
#include "daemon/config/npy.hpp"
#include "daemon/pipeline/check.hpp"
#include "kernels/model_package.hpp"
#include "kernels/number_file.hpp"
#include "kernels/plugin_library.hpp"

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
std::optional<std::int64_t> parse_most(std::string_view text) {
  constexpr std::string_view prefix = "max ";
  if (!text.starts_with(prefix)) {
    return std::nullopt;
  }
  text.remove_prefix(prefix.size());
  return parse_number<std::int64_t>(text);
}

void read_shape(table_reader& table, tensor_spec& input) {
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
    if (const auto* text = element.as_string(); text != nullptr && input.shape.empty()) {
      extent = parse_most(text->get());
      input.variable = true;
    }
    if (!extent || *extent < 1 || *extent > max_extent) {
      table.refuse_value("shape", element, shape_rule);
    }
    input.shape.push_back(*extent);
  }
}

void read_input(table_reader& table, tensor_spec& input) {
  std::string type;
  word_kind{element_names}.read(table, "dtype", type);
  if (type.empty()) {
    table.refuse_key("dtype", "is missing; give it the type of one element, such as \"f32\"");
  }
  input.type = element_type_of(type).value();
  read_shape(table, input);
  table.refuse_unknown();
}

/// Its keys, without braces.
std::string print_input(const tensor_spec& input) {
  bool leads = input.variable;
  const std::string shape = toml_array(input.shape, [&](std::int64_t extent) {
    const bool is_most = std::exchange(leads, false);
    return is_most ? toml_string("max " + std::to_string(extent)) : std::to_string(extent);
  });
  return "dtype = " + toml_string(name_of(input.type)) + ", shape = " + shape;
}

/// The frame of a pipeline with one input.
struct input_kind {
  [[nodiscard]] std::string summary() const { return "table"; }
  void read(table_reader& pipeline, std::string_view key, pipeline_declaration& declared) const {
    const toml::node* node = pipeline.find(key);
    constexpr const char* allowed = "a table such as { dtype = \"cu8\", shape = [1024] }";
    if (pipeline.contents().contains("inputs")) {
      if (node != nullptr) {
        pipeline.refuse_key(key, "stands beside `inputs`: leave one of them out");
      }
      return;
    }
    if (node == nullptr) {
      pipeline.refuse_key(key, std::string("is missing; give it ") + allowed);
    }
    if (!node->is_table()) {
      pipeline.refuse_value(key, *node, allowed);
    }
    table_reader table = pipeline.nested(key, *node->as_table());
    read_input(table, declared.input);
  }
  [[nodiscard]] std::string print(const pipeline_declaration& declared) const {
    return declared.inputs.empty() ? "{ " + print_input(declared.input) + " }" : "";
  }
};

/// The frames of a pipeline with several.
struct inputs_kind {
  [[nodiscard]] std::string summary() const { return "array of tables"; }
  void read(table_reader& pipeline, std::string_view key, pipeline_declaration& declared) const {
    const toml::node* node = pipeline.find(key);
    if (node == nullptr) {
      return;
    }
    constexpr const char* allowed =
        "an array of tables such as { name = \"mask\", dtype = \"f32\", shape = [1024] }, at least one";
    const auto* array = node->as_array();
    if (array == nullptr || array->empty() || !array->is_homogeneous(toml::node_type::table)) {
      pipeline.refuse_value(key, *node, allowed);
    }
    for (const toml::node& each : *array) {
      table_reader table = pipeline.nested(key, *each.as_table());
      operator_output& input = declared.inputs.emplace_back();
      text_kind{}.read(table, "name", input.name);
      if (input.name.empty()) {
        table.refuse_key("name", "is missing; stages read an input by its name");
      }
      read_input(table, input.spec);
    }
    declared.input = declared.inputs.front().spec;
  }
  [[nodiscard]] std::string print(const pipeline_declaration& declared) const {
    return declared.inputs.empty() ? "" : toml_array(declared.inputs, [](const operator_output& each) {
      return "{ name = " + toml_string(each.name) + ", " + print_input(each.spec) + " }";
    });
  }
};

const std::vector<setting<batch_limits>>& batch_settings() {
  constexpr change effect = change::by_reload;
  const auto row = [](std::string_view key, auto member, auto kind) {
    return make_setting<batch_limits>(
        key, [member](auto& batch) -> auto& { return batch.*member; }, kind, effect, "");
  };
  static const std::vector<setting<batch_limits>> rows{
      row("max_frames", &batch_limits::max_frames, integer_kind{1, std::int64_t{1} << 24}),
      row("max_bytes", &batch_limits::max_bytes, size_kind{1, std::size_t{64} << 30U}),
      row("max_delay", &batch_limits::max_delay, duration_kind{nanoseconds(0), std::chrono::minutes(1)})};
  return rows;
}

/// When a batch is closed.
struct batch_kind {
  [[nodiscard]] std::string summary() const { return "table"; }
  void read(table_reader& pipeline, std::string_view key, batch_limits& batch) const {
    const toml::node* node = pipeline.find(key);
    if (node == nullptr) {
      return;
    }
    if (!node->is_table()) {
      pipeline.refuse_value(key, *node, "a table such as { max_frames = 256, max_bytes = \"8 MiB\" }");
    }
    table_reader table = pipeline.nested(key, *node->as_table());
    read_all(batch_settings(), table, batch);
    table.refuse_unknown();
  }
  [[nodiscard]] std::string print(const batch_limits& batch) const {
    std::string text;
    for (const setting<batch_limits>& row : batch_settings()) {
      text += (text.empty() ? "{ " : ", ") + std::string(row.key) + " = " + row.print(batch);
    }
    return text + " }";
  }
};

std::vector<double> read_numbers(const table_reader& table, std::string_view key, const toml::array& array) {
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

/// As texts where there is one among them.
std::vector<std::string> read_texts(const table_reader& table, std::string_view key, const toml::array& array) {
  std::vector<std::string> texts;
  for (const toml::node& element : array) {
    if (const auto* text = element.as_string()) {
      texts.push_back(text->get());
    } else if (const auto* number = element.as_integer()) {
      texts.push_back(std::to_string(number->get()));
    } else {
      table.refuse_value(key, element, "an array of strings and whole numbers");
    }
  }
  return texts;
}

parameters::value read_parameter(const table_reader& table, std::string_view key, const toml::node& node);

/// A table of parameters. Arrays of numbers may come from .npy files.
std::shared_ptr<const parameters> read_parameters(const table_reader& table, std::string_view key,
                                                  const toml::table& contents) {
  auto made = std::make_shared<parameters>();
  const table_reader nested = table.nested(std::string(key), contents);
  for (const auto& [name, node] : contents) {
    const auto* const text = node.as_string();
    if (text == nullptr || !text->get().ends_with(".npy")) {
      made->set(std::string(name.str()), read_parameter(nested, name.str(), node));
      continue;
    }
    try {
      npy_array array = read_npy(std::filesystem::path(table.place().position.file).parent_path() / text->get());
      if (array.is_complex) {
        throw npy_error("its numbers are complex");
      }
      made->set(std::string(name.str()), std::move(array.real));
    } catch (const npy_error& error) {
      nested.refuse_key(name.str(), "\"" + text->get() + "\": " + error.what());
    }
  }
  return made;
}

parameters::value read_parameter(const table_reader& table, std::string_view key, const toml::node& node) {
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
    if (std::any_of(array->begin(), array->end(), [](const toml::node& each) { return each.is_string(); })) {
      return read_texts(table, key, *array);
    }
    return read_numbers(table, key, *array);
  }
  if (const auto* nested = node.as_table()) {
    return read_parameters(table, key, *nested);
  }
  table.refuse_value(key, node, "true or false, a finite number, a string, an array of them, or a table");
}

/// A parameter whose numbers stand in a .npy file beside the configuration; false when it is none.
bool read_npy_parameter(const table_reader& table, std::string_view key, const toml::node& node,
                        stage_declaration& stage) {
  const auto* text = node.as_string();
  if (text == nullptr || (!names_npy_file(stage.op, key, text->get()) && !keeps_npy_file(stage.op, key, text->get()))) {
    return false;
  }
  const std::string imaginary = std::string(key) + "_imag";
  try {
    const std::filesystem::path file = std::filesystem::path(stage.position.file).parent_path() / text->get();
    if (keeps_npy_file(stage.op, key, text->get())) {
      stage.settings.set(std::string(key), open_npy_file(text->get(), file));
      return true;
    }
    parameters given;
    set_from_npy_file(stage.op, std::string(key), file, given);
    if (given.has(imaginary) && table.contents().contains(imaginary)) {
      throw npy_error("its numbers are complex, but " + imaginary + " is given too");
    }
    for (const char* const extents : {"templates", "by_shape"}) {
      if (given.has(extents) && table.contents().contains(extents)) {
        throw npy_error(std::string("it has the extents itself, but ") + extents + " is given too");
      }
    }
    for (const auto& [name, value] : given) {
      stage.settings.set(name, value);
    }
  } catch (const npy_error& error) {
    table.refuse_key(key, "\"" + text->get() + "\": " + error.what());
  }
  return true;
}

constexpr std::size_t largest_code = std::size_t{256} << 20U;
constexpr std::size_t largest_package = std::size_t{16} << 30U;

/// Whether `file` is one of the allowed files, or lies below an allowed folder, links followed.
bool is_allowed(const std::filesystem::path& folder, const std::filesystem::path& file, const code_settings& code) {
  std::error_code unknown;
  const std::filesystem::path real = std::filesystem::canonical(file, unknown);
  return !unknown && std::any_of(code.allow.begin(), code.allow.end(), [&](const std::string& each) {
    std::error_code missing;
    const std::filesystem::path allowed = std::filesystem::canonical(folder / each, missing);
    return !each.empty() && !missing &&
           std::mismatch(allowed.begin(), allowed.end(), real.begin(), real.end()).first == allowed.end();
  });
}

constexpr std::size_t most_headers = 65536;

/// Refuses what `code` does not allow. `name` is as the configuration gives it.
void check_allowed(const table_reader& table, std::string_view key, const std::string& name,
                   const std::filesystem::path& folder, const code_settings& code) {
  std::error_code unknown;
  if (!std::filesystem::exists(folder / name, unknown)) {
    table.refuse_key(key, "\"" + name + "\": there is no such file");
  }
  if (!is_allowed(folder, folder / name, code)) {
    const std::filesystem::path real = std::filesystem::canonical(folder / name, unknown);
    const bool is_link = real != (std::filesystem::canonical(folder, unknown) / name).lexically_normal();
    table.refuse_key(key, "\"" + name + "\"" + (is_link ? ", which is " + real.string() + "," : "") +
                              " is not allowed: add it, or its folder, to code.allow if you trust it with all that "
                              "the daemon may do");
  }
}

/// The state of the folders of headers that a stage names.
std::string read_headers(const table_reader& table, const std::filesystem::path& folder, const code_settings& code) {
  std::string states;
  const auto* const folders = table.contents()["include"].as_array();
  if (folders == nullptr) {
    return states;
  }
  for (const toml::node& each : *folders) {
    if (const auto* const name = each.as_string()) {
      check_allowed(table, "include", name->get(), folder, code);
      try {
        states += guarded_folder_state(folder / name->get(), most_headers);
      } catch (const configuration_error& error) {
        table.refuse_key("include", error.what());
      }
    }
  }
  return states;
}

/// Compares a file's bytes with the stage's `sha256`, if it has one.
void check_sha256(const table_reader& table, const std::string& file, std::string_view text) {
  const toml::node* const node = table.contents().get("sha256");
  if (node == nullptr) {
    return;
  }
  const auto* const given = node->as_string();
  constexpr std::size_t digits = 64;
  if (given == nullptr || given->get().size() != digits ||
      given->get().find_first_not_of("0123456789abcdefABCDEF") != std::string::npos) {
    table.refuse_value("sha256", *node, "the 64 digits that `sha256sum " + file + "` prints");
  }
  std::string wanted = given->get();
  std::transform(wanted.begin(), wanted.end(), wanted.begin(),
                 [](char digit) { return digit >= 'A' ? static_cast<char>(digit | 0x20) : digit; });
  if (const std::string is = sha256_of(text); is != wanted) {
    constexpr std::size_t shown = 12;
    table.refuse_key("sha256", "is " + wanted.substr(0, shown) + "…, and that of the file is " + is.substr(0, shown) +
                                   "…: if you trust the file as it is now, take what `sha256sum " + file + "` prints");
  }
}

/// The stage's file of users' code; false when `key` names none.
bool read_code(const table_reader& table, std::string_view key, const toml::node& node, const code_settings& code,
               stage_declaration& stage) {
  const bool is_plugin = (stage.op == "plugin" && key == "file") || (stage.op == "kernel" && key == "host");
  const bool is_model = stage.op == "model" && key == "file";
  if (!is_plugin && !is_model && (stage.op != "kernel" || key != "file")) {
    return false;
  }
  const auto* const text = node.as_string();
  if (text == nullptr) {
    table.refuse_value(key, node, "the name of a file beside the configuration");
  }
  const std::filesystem::path folder = std::filesystem::path(stage.position.file).parent_path();
  const std::filesystem::path file = folder / text->get();
  check_allowed(table, key, text->get(), folder, code);
  code_file read{.name = text->get(), .path = file.string(), .text = ""};
  try {
    read.text = read_guarded_file(file, file_guard::code, is_model ? largest_package : largest_code);
  } catch (const configuration_error& error) {
    table.refuse_key(key, error.what());
  }
  if (key == "file") {
    check_sha256(table, read.path, read.text);
  }
  if (is_plugin) {
    try {
      read.library = load_plugin(read.text);
      read.text = "";
    } catch (const plugin_error& error) {
      table.refuse_key(key, read.path + ": " + error.what());
    }
  } else if (is_model) {
    try {
      read.package = read_model_package(read.text);
      read.text = "";
    } catch (const package_error& error) {
      table.refuse_key(key, read.path + ": " + error.what());
    }
  } else {
    read.headers = read_headers(table, folder, code);
  }
  stage.settings.set(std::string(key), std::make_shared<const code_file>(std::move(read)));
  return true;
}

stage_declaration read_stage(const toml::table& contents, configuration_place place, std::size_t index,
                             const code_settings& code) {
  place.position.line = contents.source().begin.line;
  place.stage = numbered(index);
  if (const auto* name = contents["name"].as_string()) {
    place.stage = name->get();
  }
  table_reader table(contents, place, "");
  stage_declaration stage;
  stage.position = place.position;
  const std::vector<setting<stage_declaration>>& rows = stage_settings();
  for (const setting<stage_declaration>& row : rows) {
    if (row.is_required && !contents.contains(row.key)) {
      table.refuse_key(row.key, "is missing; each stage has a name and an op");
    }
  }
  read_all(rows, table, stage);
  for (const auto& [key, node] : contents) {
    stage.lines[std::string(key.str())] = key.source().begin.line;
    if (std::any_of(rows.begin(), rows.end(), [name = key.str()](const auto& row) { return row.key == name; })) {
      continue;
    }
    if (read_code(table, key.str(), node, code, stage)) {
      continue;
    }
    if (read_npy_parameter(table, key.str(), node, stage)) {
      stage.lines[std::string(key.str()) + "_imag"] = key.source().begin.line;
    } else {
      stage.settings.set(std::string(key.str()), read_parameter(table, key.str(), node));
    }
  }
  return stage;
}

void read_stages(table_reader& table, std::vector<stage_declaration>& stages, const code_settings& code) {
  const toml::node* node = table.find("stage");
  if (node == nullptr) {
    return;
  }
  const auto* array = node->as_array();
  if (array == nullptr || !array->is_homogeneous(toml::node_type::table)) {
    table.refuse_value("stage", *node, "[[pipeline.stage]] tables, in double brackets");
  }
  for (std::size_t index = 0; index < array->size(); ++index) {
    stages.push_back(read_stage(*(*array)[index].as_table(), table.place(), index, code));
  }
}

field_lines lines_of(const table_reader& table) {
  field_lines lines;
  for (const auto& [key, node] : table.contents()) {
    lines[std::string(key.str())] = key.source().begin.line;
  }
  if (const toml::table* batch = table.contents()["batch"].as_table()) {
    const table_reader nested = table.nested("batch", *batch);
    for (const setting<batch_limits>& row : batch_settings()) {
      lines["batch." + std::string(row.key)] = nested.line_of(row.key);
    }
  }
  return lines;
}

pipeline_declaration read_pipeline(const toml::table& contents, configuration_place place, std::size_t index,
                                   const code_settings& code) {
  place.position.line = contents.source().begin.line;
  place.pipeline = numbered(index);
  if (const auto* name = contents["name"].as_string()) {
    place.pipeline = name->get();
  }
  table_reader table(contents, place, "");
  pipeline_declaration pipeline;
  pipeline.position = place.position;
  if (!contents.contains("name")) {
    table.refuse_key("name", "is missing; each pipeline has a name");
  }
  read_all(pipeline_settings(), table, pipeline);
  pipeline.lines = lines_of(table);
  read_stages(table, pipeline.stages, code);
  table.refuse_unknown();
  return check_pipeline(std::move(pipeline));
}

std::string print_parameter(const parameters::value& value);

std::string print_table(const parameters& table) {
  std::string text;
  for (const auto& [key, value] : table) {
    text += (text.empty() ? "{ " : ", ") + toml_key(key) + " = " + print_parameter(value);
  }
  return text.empty() ? "{}" : text + " }";
}

std::string print_parameter(const parameters::value& value) {
  return std::visit(
      [](const auto& held) -> std::string {
        using type = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<type, bool>) {
          return held ? "true" : "false";
        } else if constexpr (std::is_same_v<type, std::int64_t>) {
          return std::to_string(held);
        } else if constexpr (std::is_same_v<type, double>) {
          return toml_real(held);
        } else if constexpr (std::is_same_v<type, std::string>) {
          return toml_string(held);
        } else if constexpr (std::is_same_v<type, std::vector<double>>) {
          const bool is_whole = std::all_of(held.begin(), held.end(), [](double each) {
            constexpr double exact = 9007199254740992;
            return std::abs(each) <= exact && each == std::trunc(each) && (each != 0 || !std::signbit(each));
          });
          return is_whole
                     ? toml_array(held, [](double each) { return std::to_string(static_cast<std::int64_t>(each)); })
                     : toml_array(held, toml_real);
        } else if constexpr (std::is_same_v<type, std::vector<std::string>>) {
          return toml_array(held, toml_string);
        } else if constexpr (std::is_same_v<type, std::shared_ptr<const parameters>>) {
          return print_table(*held);
        } else if constexpr (std::is_same_v<type, std::shared_ptr<const code_file>>) {
          return toml_string(held->name);
        } else if constexpr (std::is_same_v<type, std::shared_ptr<const number_file>>) {
          return toml_string(held->name());
        } else {
          return "";
        }
      },
      value);
}

}  // namespace

const std::vector<setting<pipeline_declaration>>& pipeline_settings() {
  using declared = pipeline_declaration;
  const auto whole = [](auto& pipeline) -> auto& {
    return pipeline;
  };
  const auto required = [](setting<declared> made) {
    made.is_required = true;
    return made;
  };
  static const std::vector<setting<declared>> rows{
      row("name", &declared::name, text_kind{}, "What clients call it.", true),
      required(make_setting<declared>(
          "input", whole, input_kind{}, change::by_reload,
          "The frame, as a table of `dtype` and `shape`. "
          "A dtype is `u8`, `u16`, `i8`, `i16`, `i32` or `i64`, `f16`, `bf16`, `f32` or `f64`, `bool` (a byte, 0 or "
          "1), "
          "`cf32` for complex numbers, or `cu8`, `ci8` or `ci16` for integer IQ. "
          "The first extent of the shape may be `\"max N\"` where frames differ.")),
      make_setting<declared>("inputs", whole, inputs_kind{}, change::by_reload,
                             "Instead of `input`, several that a request has, such as a signal and a mask. "
                             "Each is a table of a `name`, by which stages read it, a `dtype` and a `shape`. "
                             "All frames of a request have one length."),
      row("batch", &declared::batch, batch_kind{},
          "When a batch is closed: at `max_frames`, at `max_bytes`, or when its first frame has waited for "
          "`max_delay`."),
      row("priority", &declared::priority, named_kind{priority_names}, "Who goes first when the device is busy."),
      row("overflow", &declared::overflow, named_kind{overflow_names},
          "What happens beyond a client's credits. "
          "`reject` refuses the new request. "
          "`drop-oldest` refuses the client's oldest, which suits live feeds."),
      row("ordered", &declared::ordered, flag_kind{}, "Whether the results of a session come in its order."),
      row("outputs", &declared::outputs, texts_kind{},
          "The stages whose results are sent back; the last stage when left out.")};
  return rows;
}

const std::vector<setting<stage_declaration>>& stage_settings() {
  using declared = stage_declaration;
  static const std::vector<setting<declared>> rows{
      row("name", &declared::name, text_kind{}, "The stage's own.", true),
      row("op", &declared::op, text_kind{}, "The operator.", true),
      row("from", &declared::from, texts_kind{},
          "What it reads: a stage, or `\"input\"`, or an array of several. "
          "When left out, the stage before it, and for the first the input."),
      row("tunable", &declared::tunable, texts_kind{},
          "Numbers of the stage, such as `\"a\"` of an `affine`, that clients may set for their own sessions while "
          "these go on, and `penstock set` and a reload for all.")};
  return rows;
}

std::vector<pipeline_declaration> read_pipelines(const toml::node& pipelines, const std::string& file,
                                                 const code_settings& code) {
  configuration_place place{{file, pipelines.source().begin.line}, "", "", "pipeline"};
  const auto* array = pipelines.as_array();
  if (array == nullptr || !array->is_homogeneous(toml::node_type::table)) {
    refuse(place, shown(pipelines) + " is given; allowed is [[pipeline]] tables, in double brackets");
  }
  place.field.clear();
  std::vector<pipeline_declaration> declared;
  for (std::size_t index = 0; index < array->size(); ++index) {
    pipeline_declaration next = read_pipeline(*(*array)[index].as_table(), place, index, code);
    for (const pipeline_declaration& other : declared) {
      if (other.name == next.name) {
        refuse(next.place("name"),
               "a pipeline of this name is on line " + std::to_string(other.position.line) + " already");
      }
    }
    declared.push_back(std::move(next));
  }
  return declared;
}

std::string print_pipeline(const pipeline_declaration& pipeline) {
  std::string text = "\n[[pipeline]]\n" + print_all(pipeline_settings(), pipeline);
  for (const stage_declaration& stage : pipeline.stages) {
    text += "\n[[pipeline.stage]]\n" + print_all(stage_settings(), stage);
    for (const auto& [key, value] : stage.settings) {
      text += toml_key(key) + " = " + print_parameter(value) + "\n";
    }
  }
  return text;
}

}  // namespace penstock

#include "kernels/kernel.hpp"

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <limits>
#include <sstream>
#include <utility>

#include "kernels/half.hpp"
#include "kernels/operator_checks.hpp"
#include "kernels/plugin.hpp"

namespace penstock {
namespace {

constexpr std::size_t most_inputs = 8;
constexpr std::size_t most_outputs = 8;
constexpr std::size_t most_arguments = 16;
constexpr std::size_t most_extents = 8;
constexpr std::array<std::string_view, most_extents + 1> variables{"frames", "n0", "n1", "n2", "n3",
                                                                   "n4",     "n5", "n6", "n7"};

/// A type that a kernel's scalar or array can have.
struct scalar_type {
  std::string_view name;
  std::size_t bytes;
  /// Writes the number; false if the type has no such number, or none near it.
  bool (*store)(double number, std::byte* to);
  bool whole = false;  ///< an expression can have it
  /// What it holds of the 64-bit numbers, if it is whole.
  std::int64_t least = 0;
  std::int64_t most = 0;
};

template <std::integral Integer>
bool store(double number, std::byte* to) {
  // The limits of 64 bits are powers of two, or one less, which double rounds up to one.
  using limits = std::numeric_limits<Integer>;
  const double beyond = std::ldexp(1.0, limits::digits);
  if (!(number >= static_cast<double>(limits::min()) && number < beyond) || std::trunc(number) != number) {
    return false;
  }
  const auto value = static_cast<Integer>(number);
  std::memcpy(to, &value, sizeof value);
  return true;
}

template <class Value>
bool store_value(const Value& value, bool fits, std::byte* to) {
  std::memcpy(to, &value, sizeof value);
  return fits;
}
bool store_f64(double number, std::byte* to) {
  return store_value(number, true, to);
}
bool store_f32(double number, std::byte* to) {
  return store_value(static_cast<float>(number), is_finite_f32(number), to);
}
bool store_f16(double number, std::byte* to) {
  const half_bits value = to_half(to_odd_float(number));
  return store_value(value, std::isfinite(to_float(value)), to);
}
bool store_bf16(double number, std::byte* to) {
  const brain_bits value = to_brain(to_odd_float(number));
  return store_value(value, std::isfinite(to_float(value)), to);
}
bool store_bool(double number, std::byte* to) {
  return store_value(static_cast<std::uint8_t>(number != 0.0), number == 0.0 || number == 1.0, to);
}

template <std::integral Integer>
constexpr scalar_type whole_type(std::string_view name) noexcept {
  using limits = std::numeric_limits<Integer>;
  constexpr std::int64_t largest_i64 = std::numeric_limits<std::int64_t>::max();
  return {.name = name,
          .bytes = sizeof(Integer),
          .store = store<Integer>,
          .whole = true,
          .least = static_cast<std::int64_t>(limits::min()),
          .most = std::cmp_less(limits::max(), largest_i64) ? static_cast<std::int64_t>(limits::max()) : largest_i64};
}

constexpr std::array<scalar_type, 13> scalar_types{{whole_type<std::int32_t>("i32"),
                                                    whole_type<std::uint32_t>("u32"),
                                                    whole_type<std::int64_t>("i64"),
                                                    whole_type<std::uint64_t>("u64"),
                                                    {"f32", 4, store_f32},
                                                    {"f64", 8, store_f64},
                                                    whole_type<std::uint8_t>("u8"),
                                                    whole_type<std::int8_t>("i8"),
                                                    whole_type<std::uint16_t>("u16"),
                                                    whole_type<std::int16_t>("i16"),
                                                    {"f16", 2, store_f16},
                                                    {"bf16", 2, store_bf16},
                                                    {"bool", 1, store_bool}}};

const scalar_type* find_type(std::string_view name) noexcept {
  const auto* const found = std::find_if(scalar_types.begin(), scalar_types.end(),
                                         [name](const scalar_type& each) { return each.name == name; });
  return found == scalar_types.end() ? nullptr : found;
}

/// Compiles the expressions of one kernel.
class expressions {
 public:
  explicit expressions(const tensor_spec& input) : names_(std::span(variables).first(input.shape.size() + 1)) {}

  [[nodiscard]] size_expression compile(std::string_view key, std::string_view text) const {
    try {
      return {text, names_};
    } catch (const expression_error& error) {
      throw parameter_error(std::string(key), error.what());
    }
  }

  /// 1 to 3 of them; those that are missing are 1.
  [[nodiscard]] std::array<size_expression, 3> compile_three(const parameters& settings, std::string_view key) const {
    const std::vector<std::string> texts = settings.texts(key);
    if (texts.empty() || texts.size() > 3) {
      throw parameter_error(std::string(key),
                            "must be a list of 1 to 3 expressions, such as [\"ceil(n0 / 256)\", \"frames\"]");
    }
    std::array<size_expression, 3> all{size_expression(1), size_expression(1), size_expression(1)};
    for (std::size_t at = 0; at < texts.size(); ++at) {
      all[at] = compile(key, texts[at]);
    }
    return all;
  }

 private:
  std::span<const std::string_view> names_;
};

/// A text, or a number as a text.
std::string expression_text(const parameters& settings, std::string_view key, std::string_view otherwise) {
  if (const auto* const number = settings.find<std::int64_t>(key)) {
    return std::to_string(*number);
  }
  return settings.text(key, otherwise);
}

/// `key` is the parameter that holds the table.
tensor_spec parse_output(const parameters& given, const char* key, const tensor_spec& input,
                         const expressions& compiler) {
  tensor_spec output = input;
  const std::string type = given.text("dtype", name_of(input.type));
  const std::optional<element_type> known = element_type_of(type);
  if (!known) {
    throw parameter_error(key, "has an unknown dtype \"" + type + "\"");
  }
  output.type = *known;
  if (!given.has("shape")) {
    return output;
  }
  const std::vector<std::string> texts = given.texts("shape");
  const kernel_extents extents(input, {.frames = 1, .leading = input.shape.front()});
  output.shape.clear();
  output.variable = input.variable && !texts.empty() && texts.front() == "n0";
  for (const std::string& text : texts) {
    const size_expression extent = compiler.compile(key, text);
    if (extent.uses(0) || (input.variable && extent.uses(1) && !(output.variable && output.shape.empty()))) {
      throw parameter_error(key,
                            "= \"" + text + "\" depends on the batch: an extent depends on fixed ones, or is \"n0\"");
    }
    output.shape.push_back(extent.value(extents.values()));
    if (output.shape.back() < 1) {
      throw parameter_error(key, "= \"" + text + "\" is " + std::to_string(output.shape.back()) + ", less than 1");
    }
  }
  if (output.shape.empty() || output.shape.size() > most_extents) {
    throw parameter_error(key,
                          "has a shape of " + std::to_string(output.shape.size()) + " extents; allowed are 1 to 8");
  }
  return output;
}

/// "" for the sole output.
std::vector<operator_output> parse_outputs(const parameters& settings, const tensor_spec& input,
                                           const expressions& compiler) {
  if (!settings.has("outputs")) {
    return {{"", parse_output(settings.table("output"), "output", input, compiler)}};
  }
  if (settings.has("output")) {
    throw parameter_error("outputs", "and `output` are given; one of them says what the kernel writes");
  }
  std::vector<operator_output> all;
  const parameters& tables = settings.table("outputs");
  for (const auto& [name, value] : tables) {
    if (!std::holds_alternative<std::shared_ptr<const parameters>>(value)) {
      throw parameter_error("outputs", "'" + name + "' must be a table of `dtype` and `shape`");
    }
    all.push_back({name, parse_output(tables.table(name), "outputs", input, compiler)});
  }
  if (all.empty() || all.size() > most_outputs) {
    throw parameter_error("outputs",
                          "has " + std::to_string(all.size()) + "; allowed are 1 to " + std::to_string(most_outputs));
  }
  return all;
}

/// What an argument can have of session_arguments.
struct session_part {
  std::string_view name;
  std::size_t offset;
  std::size_t bytes;
};

constexpr std::array<session_part, 4> session_parts{
    {{"session", 0, sizeof(session_arguments)},
     {"session.frames", offsetof(session_arguments, frames), sizeof(void*)},
     {"session.pool", offsetof(session_arguments, pool), sizeof(void*)},
     {"session.stride", offsetof(session_arguments, stride), sizeof(std::size_t)}}};

const session_part* find_session_part(std::string_view text) noexcept {
  return std::find_if(session_parts.begin(), session_parts.end(),
                      [text](const session_part& each) { return each.name == text; });
}

/// "in" is 0, "in2" is 2.
std::optional<std::size_t> input_named(std::string_view word) noexcept {
  if (!word.starts_with("in") || word.size() > 3 || (word.size() == 3 && (word[2] < '0' || word[2] > '9'))) {
    return std::nullopt;
  }
  return word.size() == 2 ? 0 : static_cast<std::size_t>(word[2] - '0');
}

std::string_view trimmed(std::string_view text) noexcept {
  while (text.starts_with(' ')) {
    text.remove_prefix(1);
  }
  while (text.ends_with(' ')) {
    text.remove_suffix(1);
  }
  return text;
}

std::vector<double> numbers_of(const parameters& values, std::string_view name) {
  try {
    return values.numbers(name);
  } catch (const parameter_error& error) {
    throw parameter_error("values", "'" + std::string(name) + "' " + error.what());
  }
}

void store_number(std::string_view name, double number, const scalar_type& type, std::byte* to) {
  if (!type.store(number, to)) {
    std::ostringstream text;
    text << "'" << name << "' is " << number << ", which is no " << type.name;
    throw parameter_error("values", text.str());
  }
}

/// true and false are 1 and 0.
double number_of(const parameters& values, std::string_view name) {
  const bool* const flag = values.find<bool>(name);
  return flag == nullptr ? values.number(name) : *flag ? 1.0 : 0.0;
}

kernel_argument array_argument(const parameters& values, std::string_view name, const scalar_type& type) {
  kernel_argument made;
  made.from = kernel_argument::source::array;
  for (const double each : numbers_of(values, name)) {
    made.array.resize(made.array.size() + type.bytes);
    store_number(name, each, type, made.array.data() + made.array.size() - type.bytes);
  }
  if (made.array.empty()) {
    throw parameter_error("values", "'" + std::string(name) + "' is an empty array");
  }
  return made;
}

/// The output that an argument names; `text` is "out" or starts with "out.".
std::size_t output_named(std::string_view text, const std::vector<operator_output>& outputs) {
  const std::string_view name = text.size() > 3 ? text.substr(4) : "";
  std::string known;
  for (std::size_t index = 0; index < outputs.size(); ++index) {
    if (outputs[index].name == name) {
      return index;
    }
    known += (known.empty() ? "\"out" : "\", \"out") + (outputs[index].name.empty() ? "" : "." + outputs[index].name);
  }
  throw parameter_error("args", "has \"" + std::string(text) + "\"; the kernel writes " + known + "\"");
}

kernel_argument parse_argument(std::string_view text, const parameters& settings, const kernel_settings& parsed,
                               const expressions& compiler) {
  const parameters& values = settings.table("values");
  kernel_argument made;
  if (text == "out" || text.starts_with("out.")) {
    made.from = kernel_argument::source::output;
    made.index = output_named(text, parsed.outputs);
    return made;
  }
  if (text == "state" || text == "new_state") {
    if (!parsed.waves) {
      throw parameter_error("args",
                            "has \"" + std::string(text) + "\", and the stage has no `state` with order = \"waves\"");
    }
    // It comes behind the stage's own inputs and outputs.
    made.from = text == "state" ? kernel_argument::source::input : kernel_argument::source::output;
    made.index = text == "state" ? parsed.inputs.size() : parsed.outputs.size();
    return made;
  }
  if (text == "null") {
    made.from = kernel_argument::source::null;
    return made;
  }
  if (text == kernel_numbers && settings.flag("tuned", false)) {
    made.from = kernel_argument::source::numbers;
    return made;
  }
  if (const auto* const part = find_session_part(text); part != session_parts.end()) {
    if (parsed.state_bytes == 0) {
      throw parameter_error("args", "has \"" + std::string(text) + "\", and the stage has no `state`");
    }
    if (parsed.waves) {
      throw parameter_error("args", "has \"" + std::string(text) +
                                        "\": in order = \"waves\" the kernel gets \"state\" and \"new_state\"");
    }
    made.from = kernel_argument::source::session;
    made.offset = part->offset;
    made.bytes = part->bytes;
    return made;
  }
  if (const std::optional<std::size_t> input = input_named(text)) {
    if (*input >= parsed.inputs.size()) {
      throw parameter_error("args", "has \"" + std::string(text) + "\", and the stage reads from " +
                                        std::to_string(parsed.inputs.size()));
    }
    made.index = *input;
    return made;
  }
  const std::size_t blank = text.find(' ');
  const std::string_view word = text.substr(0, blank);
  const bool points = word.ends_with('*');
  const scalar_type* const type = find_type(points ? word.substr(0, word.size() - 1) : word);
  const std::string_view name = type == nullptr || blank == text.npos ? text : trimmed(text.substr(blank));
  if (values.find<std::vector<double>>(name) != nullptr) {
    if (type != nullptr && !points) {
      throw parameter_error("args", "has \"" + std::string(text) + "\", and '" + std::string(name) +
                                        "' is an array: write \"" + std::string(word) + "* " + std::string(name) +
                                        "\"");
    }
    return array_argument(values, name, type == nullptr ? *find_type("f32") : *type);
  }
  if (values.has(name)) {
    if (type == nullptr || points) {
      throw parameter_error("args", "has \"" + std::string(text) + "\": say the type of the number, such as \"f32 " +
                                        std::string(name) + "\"");
    }
    made.from = kernel_argument::source::number;
    made.bytes = type->bytes;
    store_number(name, number_of(values, name), *type, made.number.data());
    return made;
  }
  if (points || (type != nullptr && !type->whole)) {
    throw parameter_error("args", "has \"" + std::string(text) + "\", and `values` has no '" + std::string(name) + "'");
  }
  made.from = kernel_argument::source::expression;
  const scalar_type& held = type == nullptr ? *find_type("i64") : *type;
  made.bytes = held.bytes;
  made.least = held.least;
  made.most = held.most;
  made.expression = compiler.compile("args", name);
  return made;
}

void parse_state(const parameters& settings, const tensor_spec& input, const expressions& compiler,
                 kernel_settings& parsed) {
  if (!settings.has("state")) {
    return;
  }
  const parameters& state = settings.table("state");
  const size_expression bytes = compiler.compile("state", expression_text(state, "bytes", ""));
  const kernel_extents extents(input, {.frames = 1, .leading = input.shape.front()});
  const std::int64_t value = bytes.value(extents.values());
  constexpr std::int64_t most = std::int64_t{1} << 30;
  if (bytes.uses(0) || value < 1 || value > most) {
    throw parameter_error("state", "needs bytes from 1 to 1 GiB that do not depend on `frames`");
  }
  parsed.state_bytes = static_cast<std::size_t>(value);
  parsed.waves = parse_choice(state, "order", {"links", "waves"}) == 1;
  parsed.whole_frames = parsed.waves || parse_choice(state, "steps", {"rows", "frames"}) == 1;
  for (const tensor_spec& each : parsed.inputs) {
    if (parsed.whole_frames && each.variable) {
      throw parameter_error("state", std::string("with ") +
                                         (parsed.waves ? "order = \"waves\"" : "steps = \"frames\"") +
                                         " needs frames of one fixed shape, not " + each.text());
    }
  }
  if (!parsed.whole_frames &&
      std::any_of(parsed.outputs.begin(), parsed.outputs.end(), [&](const operator_output& each) {
        return each.spec.shape.front() != input.shape.front() || each.spec.variable != input.variable;
      })) {
    throw parameter_error("state", "with steps = \"rows\" needs as many rows out as in; steps = \"frames\" does not");
  }
}

}  // namespace

kernel_extents::kernel_extents(const tensor_spec& input, const batch_extent& extent) noexcept
    : count_(std::min(input.shape.size(), most_extents) + 1) {
  values_[0] = extent.frames;
  for (std::size_t axis = 0; axis + 1 < count_; ++axis) {
    values_[axis + 1] = axis == 0 && input.variable ? extent.leading : input.shape[axis];
  }
}

namespace {

void parse_cluster(const parameters& settings, kernel_settings& parsed) {
  if (!settings.has("cluster")) {
    return;
  }
  constexpr std::int64_t most = 8;  // on every device that has clusters
  const std::vector<double> sizes = settings.numbers("cluster");
  const auto is_size = [](double size) { return size >= 1.0 && size <= most && std::trunc(size) == size; };
  bool allowed = !sizes.empty() && sizes.size() <= 3 && std::all_of(sizes.begin(), sizes.end(), is_size);
  std::int64_t blocks = 1;
  for (std::size_t axis = 0; allowed && axis < sizes.size(); ++axis) {
    parsed.cluster[axis] = static_cast<std::int64_t>(sizes[axis]);
    blocks *= parsed.cluster[axis];
  }
  allowed = allowed && blocks <= most;
  if (!allowed) {
    throw parameter_error("cluster", "must be a list of 1 to 3 whole numbers, together at most 8 blocks, such as [2]");
  }
}

}  // namespace

kernel_settings parse_kernel(const parameters& settings, std::span<const tensor_spec> inputs) {
  if (inputs.empty() || inputs.size() > most_inputs) {
    throw parameter_error("from", "operator 'kernel' takes 1 to 8 inputs");
  }
  const tensor_spec& input = inputs.front();
  const expressions compiler(input);
  kernel_settings parsed;
  parsed.inputs.assign(inputs.begin(), inputs.end());
  parsed.outputs = parse_outputs(settings, input, compiler);
  parsed.grid = compiler.compile_three(settings, "grid");
  parsed.block = compiler.compile_three(settings, "block");
  parse_cluster(settings, parsed);
  parsed.shared = compiler.compile("shared", expression_text(settings, "shared", "0"));
  parse_state(settings, input, compiler, parsed);
  parsed.single_pass = settings.flag("single_pass", false);
  const std::vector<std::string> texts = settings.texts("args");
  if (texts.empty() || texts.size() > most_arguments) {
    throw parameter_error("args", "must be a list of 1 to 16 texts, such as [\"in\", \"out\", \"frames\"]");
  }
  for (const std::string& text : texts) {
    kernel_argument& made = parsed.arguments.emplace_back(parse_argument(trimmed(text), settings, parsed, compiler));
    made.text = text;
  }
  for (std::size_t output = 0; output < parsed.outputs.size(); ++output) {
    if (std::none_of(parsed.arguments.begin(), parsed.arguments.end(), [output](const kernel_argument& each) {
          return each.from == kernel_argument::source::output && each.index == output;
        })) {
      const std::string& name = parsed.outputs[output].name;
      throw parameter_error(
          "args", "has no \"out" + (name.empty() ? "" : "." + name) + "\": the kernel could not write its result");
    }
  }
  return parsed;
}

namespace {

bool within(std::int64_t value, std::int64_t most) noexcept {
  return value >= 1 && value <= most;
}

bool grid_fits(const kernel_launch& launch) noexcept {
  constexpr std::int64_t most_x = std::numeric_limits<std::int32_t>::max();
  constexpr std::int64_t most_yz = 65535;
  return within(launch.grid[0], most_x) && within(launch.grid[1], most_yz) && within(launch.grid[2], most_yz);
}

bool block_fits(const kernel_launch& launch, const kernel_limits& limits) noexcept {
  constexpr std::int64_t most_z = 64;
  const auto& [x, y, z] = launch.block;
  return within(x, limits.threads) && within(y, limits.threads) && within(z, most_z) && x * y * z <= limits.threads;
}

bool shared_fits(const kernel_launch& launch, const kernel_limits& limits) noexcept {
  return launch.shared >= 0 && launch.shared <= limits.shared;
}

bool has_whole_clusters(const kernel_launch& launch, const kernel_settings& settings) noexcept {
  return launch.grid[0] % settings.cluster[0] == 0 && launch.grid[1] % settings.cluster[1] == 0 &&
         launch.grid[2] % settings.cluster[2] == 0;
}

/// "3 × 2 × 1".
std::string product_text(const std::array<std::int64_t, 3>& three) {
  return std::to_string(three[0]) + " × " + std::to_string(three[1]) + " × " + std::to_string(three[2]);
}

void check_launch(const kernel_settings& settings, const kernel_limits& limits, const batch_extent& extent) {
  const kernel_extents extents(settings.inputs.front(), extent);
  const kernel_launch launch = launch_of(settings, extents.values());
  const auto in_batch = [&] {
    return " in a batch of " + std::to_string(extent.frames) + (extent.frames == 1 ? " frame" : " frames") +
           (settings.inputs.front().variable ? " with n0 = " + std::to_string(extent.leading) : "");
  };
  if (!shared_fits(launch, limits)) {
    throw parameter_error("shared", "is " + std::to_string(launch.shared) + " bytes" + in_batch() +
                                        "; this kernel can have " + std::to_string(limits.shared));
  }
  if (!block_fits(launch, limits)) {
    throw parameter_error("block", "is " + product_text(launch.block) + " threads" + in_batch() +
                                       "; this kernel can have " + std::to_string(limits.threads));
  }
  if (!grid_fits(launch)) {
    throw parameter_error("grid", "is " + product_text(launch.grid) + " blocks" + in_batch() +
                                      "; allowed are 1 to 2147483647, and 1 to 65535 in the second and third place");
  }
  if (!has_whole_clusters(launch, settings)) {
    throw parameter_error(
        "grid", "is " + product_text(launch.grid) + " blocks" + in_batch() + ", not a multiple of the cluster");
  }
  for (const kernel_argument& each : settings.arguments) {
    if (each.from != kernel_argument::source::expression) {
      continue;
    }
    const std::int64_t value = each.expression.value(extents.values());
    if (!each.holds(value)) {
      throw parameter_error("args", "has \"" + each.text + "\", which is " + std::to_string(value) + in_batch() +
                                        "; its type holds " + std::to_string(each.least) + " to " +
                                        std::to_string(each.most));
    }
  }
}

/// Calls `check` with 1 … most, or with `most_calls` of these, evenly spaced from 1 to `most`.
template <class Check>
void check_numbers(std::int64_t most, std::int64_t most_calls, const Check& check) {
  const std::int64_t calls = std::min(most, most_calls);
  for (std::int64_t call = 0; call + 1 < calls; ++call) {
    check(1 + call * (most - 1) / (calls - 1));
  }
  check(most);
}

}  // namespace

kernel_launch launch_of(const kernel_settings& settings, std::span<const std::int64_t> extents) noexcept {
  kernel_launch launch;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    launch.grid[axis] = settings.grid[axis].value(extents);
    launch.block[axis] = settings.block[axis].value(extents);
  }
  launch.shared = settings.shared.value(extents);
  return launch;
}

bool fits(const kernel_launch& launch, const kernel_settings& settings, const kernel_limits& limits) noexcept {
  return shared_fits(launch, limits) && block_fits(launch, limits) && grid_fits(launch) &&
         has_whole_clusters(launch, settings);
}

void check_launches(const kernel_settings& settings, const kernel_limits& limits, std::int64_t max_frames) {
  constexpr std::int64_t most_checks = 65536;
  const tensor_spec& input = settings.inputs.front();
  const std::int64_t longest = input.shape.front();
  const auto check = [&](std::int64_t frames, std::int64_t leading) {
    check_launch(settings, limits, {.frames = frames, .leading = leading});
  };
  if (!input.variable) {
    check_numbers(max_frames, most_checks, [&](std::int64_t frames) { check(frames, longest); });
    return;
  }
  for (const std::int64_t leading : {std::int64_t{1}, longest}) {
    check_numbers(max_frames, most_checks / 4, [&](std::int64_t frames) { check(frames, leading); });
  }
  for (const std::int64_t frames : {std::int64_t{1}, max_frames}) {
    check_numbers(longest, most_checks / 4, [&](std::int64_t leading) { check(frames, leading); });
  }
}

namespace {

/// "f32[4]"; with names "level f32[4], loud f32[1024]".
std::string text_of(const std::vector<operator_output>& outputs) {
  std::string text;
  for (const operator_output& each : outputs) {
    text += (text.empty() ? "" : ", ") + (outputs.size() == 1 ? "" : each.name + " ") + each.spec.text();
  }
  return text;
}

/// The plug-in of `host` makes what the kernel makes.
void check_host(const parameters& settings, const kernel_settings& kernel) {
  if (!settings.has("host")) {
    return;
  }
  const plugin_inference made = infer_with(plugin_operator(settings, "host"), settings, kernel.inputs);
  if (text_of(made.outputs) != text_of(kernel.outputs)) {
    throw parameter_error("host",
                          "makes " + text_of(made.outputs) + ", where the kernel makes " + text_of(kernel.outputs));
  }
  const bool keeps_state = made.state_bytes != 0;
  if (keeps_state != (kernel.state_bytes != 0)) {
    throw parameter_error("host", keeps_state ? "keeps state, and the stage has no `state`"
                                              : "keeps no state, and the stage has `state`");
  }
  if (keeps_state && made.session()->whole_frames != kernel.whole_frames) {
    throw parameter_error("host", std::string("counts a session in ") + (kernel.whole_frames ? "rows" : "frames") +
                                      ", and the stage's `state` in " + (kernel.whole_frames ? "frames" : "rows"));
  }
}

}  // namespace

tensor_spec infer_kernel(const parameters& settings, std::span<const tensor_spec> inputs) {
  (void)settings.code("file");
  const kernel_settings parsed = parse_kernel(settings, inputs);
  check_host(settings, parsed);
  return parsed.outputs.front().spec;
}

std::vector<operator_output> kernel_outputs(const parameters& settings, std::span<const tensor_spec> inputs) {
  std::vector<operator_output> outputs = parse_kernel(settings, inputs).outputs;
  return outputs.front().name.empty() ? std::vector<operator_output>{} : outputs;
}

std::unique_ptr<operation> make_kernel_host(const operation_request& request) {
  if (!request.settings.has("host")) {
    throw parameter_error("host",
                          "is missing: the host backend can't run a CUDA kernel; name a plug-in that does the "
                          "same, or set device.backend = \"cuda\"");
  }
  return make_plugin(plugin_operator(request.settings, "host"), request);
}

std::optional<session_traits> kernel_session(const parameters& settings, std::span<const tensor_spec> inputs) {
  const kernel_settings parsed = parse_kernel(settings, inputs);
  return parsed.state_bytes == 0 ? std::nullopt
                                 : std::optional(session_traits{.whole_frames = parsed.whole_frames, .rate = {}});
}

}  // namespace penstock

#include "kernels/plugin.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "kernels/plugin_library.hpp"

namespace penstock {
namespace {

// A plug-in reads the daemon's own structs.
static_assert(sizeof(ps_frame) == sizeof(session_frame));
static_assert(offsetof(ps_frame, position) == offsetof(session_frame, position));
static_assert(offsetof(ps_frame, steps) == offsetof(session_frame, steps));
static_assert(offsetof(ps_frame, produced) == offsetof(session_frame, produced));
static_assert(offsetof(ps_frame, previous) == offsetof(session_frame, previous));
static_assert(offsetof(ps_frame, next) == offsetof(session_frame, next));
static_assert(offsetof(ps_frame, place) == offsetof(session_frame, place));
static_assert(offsetof(ps_frame, half) == offsetof(session_frame, half));
static_assert(sizeof(ps_session) == sizeof(session_arguments));

constexpr std::uint32_t known_flags =
    PS_SINGLE_PASS | PS_OVERWRITES | PS_CAPTURABLE | PS_WHOLE_FRAMES | PS_WAVES | PS_QUEUES;
constexpr std::int64_t most_extent = std::int64_t{1} << 40;
constexpr std::uint64_t most_state = std::uint64_t{1} << 30;
constexpr std::uint64_t most_scratch = std::uint64_t{1} << 40;

// -- element types, by their names: "cf32" is complex and a float of 32 bits -----------------------------------------

/// The spec of a frame as plug-ins see it.
ps_spec spec_of(const tensor_spec& spec) {
  constexpr std::pair<std::string_view, std::uint8_t> kinds[] = {
      {"bool", PS_BOOL}, {"bf", PS_BFLOAT}, {"f", PS_FLOAT}, {"i", PS_INT}, {"u", PS_UINT}};
  std::string_view name = name_of(spec.type);
  const bool is_pair = name.starts_with('c');
  name.remove_prefix(is_pair ? 1 : 0);
  const auto* const kind =
      std::find_if(std::begin(kinds), std::end(kinds), [&](const auto& each) { return name.starts_with(each.first); });
  ps_spec made{};
  made.code = kind == std::end(kinds) ? std::uint8_t{PS_UINT} : kind->second;
  made.bits = static_cast<std::uint8_t>(8 * size_of(spec.type));
  made.rank = static_cast<std::uint8_t>(spec.shape.size());
  made.variable = spec.variable ? 1 : 0;
  std::copy(spec.shape.begin(), spec.shape.end(), made.extent);
  if (is_pair && made.code == PS_FLOAT) {
    made.code = PS_COMPLEX;
  } else if (is_pair) {
    made.bits /= 2;
    made.extent[made.rank++] = 2;
  }
  return made;
}

std::optional<element_type> type_of(std::uint8_t code, std::uint8_t bits) {
  const std::string number = std::to_string(bits);
  switch (code) {
    case PS_INT:
      return element_type_of("i" + number);
    case PS_UINT:
      return element_type_of("u" + number);
    case PS_FLOAT:
      return element_type_of("f" + number);
    case PS_BFLOAT:
      return element_type_of("bf" + number);
    case PS_COMPLEX:
      return element_type_of("cf" + std::to_string(bits / 2));
    case PS_BOOL:
      return bits == 8 ? element_type_of("bool") : std::nullopt;
    default:
      return std::nullopt;
  }
}

// -- what the stage's `values` look like to a plug-in -----------------------------------------------------------------

class plugin_values final : public ps_params {
 public:
  explicit plugin_values(const parameters& values) noexcept : ps_params{}, values_(values) {
    size = sizeof(ps_params);
    count = static_cast<std::uint32_t>(std::distance(values.begin(), values.end()));
    key = [](const ps_params* self, std::uint32_t index) noexcept -> const char* {
      if (index >= self->count) {
        return nullptr;
      }
      return std::next(of(self).values_.begin(), static_cast<std::ptrdiff_t>(index))->first.c_str();
    };
    kind = [](const ps_params* self, const char* name) noexcept -> std::int32_t {
      const parameters::value* const found = of(self).values_.find(name);
      return found == nullptr ? PS_NONE : kind_of(*found);
    };
    number = [](const ps_params* self, const char* name, double* to) noexcept -> std::int32_t {
      if (const auto* const real = of(self).values_.find<double>(name)) {
        *to = *real;
        return 1;
      }
      if (const auto* const whole = of(self).values_.find<std::int64_t>(name)) {
        *to = static_cast<double>(*whole);
        return 1;
      }
      return 0;
    };
    integer = [](const ps_params* self, const char* name, std::int64_t* to) noexcept -> std::int32_t {
      if (const auto* const whole = of(self).values_.find<std::int64_t>(name)) {
        *to = *whole;
        return 1;
      }
      if (const auto* const flag = of(self).values_.find<bool>(name)) {
        *to = *flag ? 1 : 0;
        return 1;
      }
      return 0;
    };
    text = [](const ps_params* self, const char* name, std::uint32_t index) noexcept -> const char* {
      const auto* const sole = of(self).values_.find<std::string>(name);
      if (sole != nullptr) {
        return index == 0 ? sole->c_str() : nullptr;
      }
      const auto* const all = of(self).values_.find<std::vector<std::string>>(name);
      return all != nullptr && index < all->size() ? (*all)[index].c_str() : nullptr;
    };
    numbers = [](const ps_params* self, const char* name, std::uint64_t* many) noexcept -> const double* {
      const auto* const all = of(self).values_.find<std::vector<double>>(name);
      *many = all == nullptr ? 0 : all->size();
      return all == nullptr ? nullptr : all->data();
    };
  }

 private:
  static const plugin_values& of(const ps_params* self) noexcept { return *static_cast<const plugin_values*>(self); }
  static std::int32_t kind_of(const parameters::value& value) noexcept {
    constexpr std::int32_t kinds[] = {PS_FLAG, PS_INTEGER, PS_NUMBER, PS_TEXT, PS_NUMBERS, PS_TEXTS};
    return value.index() < std::size(kinds) ? kinds[value.index()] : PS_NONE;
  }

  const parameters& values_;
};

/// What a plug-in refused, as a fault of the configuration.
[[noreturn]] void refuse(const ps_operator& asked, const ps_error& error, const parameters& values) {
  const std::string field(error.field, ::strnlen(error.field, sizeof error.field));
  std::string text(error.text, ::strnlen(error.text, sizeof error.text));
  if (text.empty()) {
    text = "operator '" + std::string(asked.name) + "' of the plug-in refuses it, and does not say why";
  }
  if (field.empty() || field == "from") {
    throw parameter_error(field, text);
  }
  throw parameter_error("values",
                        (values.has(field) ? "'" : "has no '") + field + (values.has(field) ? "' " : "': ") + text);
}

std::vector<ps_spec> specs_of(std::span<const tensor_spec> inputs) {
  if (inputs.empty() || inputs.size() > PS_MOST_INPUTS) {
    throw parameter_error("from", "operator 'plugin' takes 1 to 8 inputs");
  }
  std::vector<ps_spec> specs;
  for (const tensor_spec& each : inputs) {
    if (each.shape.size() >= PS_MOST_EXTENTS) {
      throw parameter_error("from", "plug-ins take frames of 1 to 7 extents, not " + each.text());
    }
    specs.push_back(spec_of(each));
  }
  return specs;
}

/// A mistake of the plug-in, not of its user.
[[noreturn]] void refuse_plugin(const ps_operator& asked, const std::string& why) {
  throw parameter_error("file", "operator '" + std::string(asked.name) + "' of the plug-in " + why);
}

tensor_spec output_of(const ps_operator& asked, const ps_spec& given, std::span<const tensor_spec> inputs) {
  tensor_spec made;
  const std::optional<element_type> type = type_of(given.code, given.bits);
  if (!type) {
    refuse_plugin(asked, "has an output of an unknown type: code " + std::to_string(given.code) + ", " +
                             std::to_string(given.bits) + " bits");
  }
  if (given.rank == 0 || given.rank > PS_MOST_EXTENTS) {
    refuse_plugin(asked, "has an output of " + std::to_string(given.rank) + " extents; allowed are 1 to 8");
  }
  made.type = *type;
  made.shape.assign(given.extent, given.extent + given.rank);
  made.variable = given.variable != 0;
  std::int64_t elements = 1;
  for (const std::int64_t extent : made.shape) {
    if (extent < 1 || extent > most_extent / elements) {
      refuse_plugin(asked, "has an output with an extent of " + std::to_string(extent));
    }
    elements *= extent;
  }
  if (made.variable) {
    const auto source =
        std::find_if(inputs.begin(), inputs.end(), [](const tensor_spec& each) { return each.variable; });
    if (source == inputs.end() || source->shape.front() != made.shape.front()) {
      refuse_plugin(asked, "has an output of variable length, " + made.text() + ", that is not the length of an input");
    }
  }
  return made;
}

/// Of one of several outputs.
void check_output_name(const ps_operator& asked, const std::string& name, const std::vector<operator_output>& others) {
  constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
  constexpr std::size_t longest = 64;
  if (name.empty() || name.size() > longest || name.find_first_not_of(letters) != std::string::npos) {
    refuse_plugin(asked, "has several outputs, and '" + name + "' is no name of one: 1 to 64 of A-Z a-z 0-9 _ -");
  }
  if (std::any_of(others.begin(), others.end(), [&](const operator_output& each) { return each.name == name; })) {
    refuse_plugin(asked, "has two outputs '" + name + "'");
  }
}

void check_state(const ps_operator& asked, const plugin_inference& inferred, std::span<const tensor_spec> inputs) {
  const tensor_spec& input = inputs.front();
  const bool whole_frames = (inferred.flags & (PS_WHOLE_FRAMES | PS_WAVES)) != 0;
  if (inferred.state_bytes == 0) {
    if (whole_frames) {
      refuse_plugin(asked, "has the flag PS_WHOLE_FRAMES or PS_WAVES and no state");
    }
    return;
  }
  for (const tensor_spec& each : inputs) {
    if (whole_frames && each.variable) {
      throw parameter_error("from", "operator '" + std::string(asked.name) +
                                        "' keeps state by whole frames: they need one fixed shape, not " + each.text());
    }
  }
  for (const operator_output& each : inferred.outputs) {
    if (!whole_frames && (each.spec.shape.front() != input.shape.front() || each.spec.variable != input.variable)) {
      refuse_plugin(asked, "keeps state by rows and makes " + each.spec.text() + " of " + input.text() +
                               ": it needs as many rows out as in, or the flag PS_WHOLE_FRAMES");
    }
  }
}

/// No exception may cross the interface; one that does is refused.
template <class Call>
std::int32_t guarded(const ps_operator& asked, const char* function, const Call& call) {
  try {
    return call();
  } catch (const std::exception& error) {
    refuse_plugin(asked, "throws an exception in " + std::string(function) + ": " + error.what());
  } catch (...) {
    refuse_plugin(asked, "throws an exception in " + std::string(function));
  }
}

plugin_inference infer(const ps_operator& asked, const plugin_values& view, const parameters& values,
                       std::span<const tensor_spec> inputs, ps_needs& needs) {
  const std::vector<ps_spec> specs = specs_of(inputs);
  ps_spec outputs[PS_MOST_OUTPUTS] = {};
  std::uint32_t count = 0;
  ps_error error{};
  error.size = sizeof error;
  needs.size = sizeof needs;
  const std::int32_t refused = guarded(asked, "infer", [&] {
    return asked.infer(&view, specs.data(), static_cast<std::uint32_t>(specs.size()), outputs, &count, &needs, &error);
  });
  if (refused != 0) {
    refuse(asked, error, values);
  }
  if (count == 0 || count > PS_MOST_OUTPUTS) {
    refuse_plugin(asked,
                  "has " + std::to_string(count) + " outputs; allowed are 1 to " + std::to_string(PS_MOST_OUTPUTS));
  }
  if ((needs.flags & ~known_flags) != 0) {
    refuse_plugin(asked, "has flags that this daemon does not know: " + std::to_string(needs.flags & ~known_flags));
  }
  if (needs.state_bytes > most_state) {
    refuse_plugin(asked, "keeps " + std::to_string(needs.state_bytes) + " bytes a session; allowed is 1 GiB");
  }
  plugin_inference made;
  made.flags = needs.flags;
  made.state_bytes = static_cast<std::size_t>(needs.state_bytes);
  for (std::uint32_t at = 0; at < count; ++at) {
    const std::string name = outputs[at].name == nullptr ? "" : outputs[at].name;
    if (count > 1) {
      check_output_name(asked, name, made.outputs);
    }
    made.outputs.push_back({name, output_of(asked, outputs[at], inputs)});
  }
  check_state(asked, made, inputs);
  return made;
}

/// Its flat values: tables in it can't be passed on.
const parameters& values_of(const parameters& settings) {
  const parameters& values = settings.table("values");
  for (const auto& [key, value] : values) {
    if (std::holds_alternative<std::shared_ptr<const parameters>>(value)) {
      throw parameter_error("values", "'" + key + "' is a table; a plug-in takes flags, numbers, texts and lists");
    }
  }
  return values;
}

}  // namespace

const ps_operator& plugin_operator(const parameters& settings, std::string_view key) {
  const code_file& file = settings.code(key);
  if (file.library == nullptr) {
    throw parameter_error(std::string(key), file.path + ": it is not loaded");
  }
  const std::vector<const ps_operator*>& all = file.library->operators;
  const std::string entry = settings.text("entry", "");
  const auto found = std::find_if(all.begin(), all.end(), [&](const ps_operator* each) { return each->name == entry; });
  if (found != all.end()) {
    return **found;
  }
  if (all.size() == 1 && (entry.empty() || key != "file")) {
    return *all.front();
  }
  std::string known;
  for (const ps_operator* each : all) {
    known += (known.empty() ? "'" : ", '") + std::string(each->name) + "'";
  }
  throw parameter_error("entry", (entry.empty() ? "is missing: the plug-in has the operators "
                                                : "the plug-in has no operator '" + entry + "'; it has ") +
                                     known);
}

plugin_inference infer_with(const ps_operator& asked, const parameters& settings, std::span<const tensor_spec> inputs) {
  const parameters& values = values_of(settings);
  ps_needs needs{};
  return infer(asked, plugin_values(values), values, inputs, needs);
}

plugin_operation::plugin_operation(const ps_operator& made_by, const operation_request& request, std::int32_t device)
    : made_by_(made_by) {
  const parameters& values = values_of(request.settings);
  const plugin_values view(values);
  ps_needs needs{};
  inferred_ = infer(made_by, view, values, request.inputs, needs);
  const std::vector<ps_spec> specs = specs_of(request.inputs);
  ps_error error{};
  error.size = sizeof error;
  const std::int32_t refused = guarded(made_by, "make", [&] {
    return made_by.make(&view, specs.data(), static_cast<std::uint32_t>(specs.size()), request.max_frames, device,
                        &made_, &needs, &error);
  });
  if (refused != 0) {
    refuse(made_by, error, values);
  }
  scratch_bytes_ = static_cast<std::size_t>(needs.scratch_bytes);
  if (needs.flags != inferred_.flags || needs.state_bytes != inferred_.state_bytes ||
      needs.scratch_bytes > most_scratch) {
    made_by.drop(made_);
    refuse_plugin(made_by, needs.scratch_bytes > most_scratch
                               ? "wants " + std::to_string(needs.scratch_bytes) + " bytes of scratch"
                               : "has other flags or another state once it is made");
  }
}

plugin_operation::~plugin_operation() {
  made_by_.drop(made_);
}

wave_layout plugin_operation::layout(const operation_request& request) const {
  return wave_layout_of(request.inputs, inferred_.outputs, inferred_.state_bytes, request.max_frames);
}

ps_run plugin_operation::run_over(const operation_arguments& arguments) noexcept {
  ps_run run{};
  run.size = sizeof run;
  run.in = arguments.inputs.data();
  run.out = arguments.outputs.empty() ? &arguments.output : arguments.outputs.data();
  run.scratch = arguments.scratch;
  run.frames = arguments.extent.frames;
  run.leading = arguments.extent.leading;
  run.session = {reinterpret_cast<const ps_frame*>(arguments.session.frames),
                 reinterpret_cast<unsigned char*>(arguments.session.pool), arguments.session.stride};
  return run;
}

fault plugin_operation::call(const ps_run& run) noexcept {
  const char* const name = made_by_.run(made_, &run);
  return {name != nullptr && *name == '\0' ? "PLUGIN_FAILED" : name};
}

fault plugin_operation::run(void* /*stream*/, const operation_arguments& arguments) noexcept {
  return call(run_over(arguments));
}

tensor_spec infer_plugin(const parameters& settings, std::span<const tensor_spec> inputs) {
  return infer_with(plugin_operator(settings, "file"), settings, inputs).outputs.front().spec;
}

std::vector<operator_output> plugin_outputs(const parameters& settings, std::span<const tensor_spec> inputs) {
  std::vector<operator_output> outputs = infer_with(plugin_operator(settings, "file"), settings, inputs).outputs;
  return outputs.size() == 1 ? std::vector<operator_output>{} : outputs;
}

std::optional<session_traits> plugin_session(const parameters& settings, std::span<const tensor_spec> inputs) {
  return infer_with(plugin_operator(settings, "file"), settings, inputs).session();
}

std::unique_ptr<operation> make_plugin(const ps_operator& asked, const operation_request& request) {
  auto made = std::make_unique<plugin_operation>(asked, request, -1);
  if (!made->in_waves()) {
    return made;
  }
  wave_layout layout = made->layout(request);
  return make_waves_host(std::move(made), std::move(layout));
}

std::unique_ptr<operation> make_plugin_host(const operation_request& request) {
  return make_plugin(plugin_operator(request.settings, "file"), request);
}

}  // namespace penstock

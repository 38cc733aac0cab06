#include "daemon/pipeline/check.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/configuration_error.hpp"
#include "daemon/pipeline/declaration.hpp"
#include "daemon/pipeline/map_fusion.hpp"
#include "kernels/map.hpp"
#include "kernels/map_expression.hpp"
#include "kernels/operation.hpp"

namespace penstock {

std::vector<std::size_t> stage_graph::running_order() const {
  std::vector<std::size_t> order;
  std::vector<bool> placed(reads.size(), false);
  const auto ready = [&](std::size_t stage) {
    return !placed[stage] && std::all_of(reads[stage].begin(), reads[stage].end(),
                                         [&](std::size_t source) { return static_cast<bool>(placed[source]); });
  };
  for (bool progress = true; progress;) {
    progress = false;
    for (std::size_t stage = 0; stage < reads.size() && !progress; ++stage) {
      if (ready(stage)) {
        placed[stage] = true;
        order.push_back(stage);
        progress = true;
      }
    }
  }
  return order;
}

std::vector<std::size_t> stage_graph::cycle() const {
  const std::vector<std::size_t> order = running_order();
  std::vector<bool> stuck(reads.size(), true);
  for (const std::size_t stage : order) {
    stuck[stage] = false;
  }
  const auto first = std::find(stuck.begin(), stuck.end(), true);
  if (first == stuck.end()) {
    return {};
  }
  // A stuck stage reads from at least one stuck stage: following those must come back to where the walk has been.
  std::vector<std::size_t> walk{static_cast<std::size_t>(first - stuck.begin())};
  while (true) {
    const auto& sources = reads[walk.back()];
    const std::size_t next = *std::find_if(sources.begin(), sources.end(),
                                           [&](std::size_t source) { return static_cast<bool>(stuck[source]); });
    const auto seen = std::find(walk.begin(), walk.end(), next);
    if (seen != walk.end()) {
      walk.erase(walk.begin(), seen);
      return walk;
    }
    walk.push_back(next);
  }
}

namespace {

constexpr std::size_t max_inputs = 8;
constexpr std::size_t max_outputs = 64;   // as many tensors as one message of the wire carries
constexpr std::size_t max_stages = 512;   // two batches of one pipeline have to fit into a stream's queue
constexpr std::size_t max_tunable = 256;  // one VALUES tells of all, and requests in flight keep a set of them each
constexpr std::size_t max_extents = 6;    // the wire carries 8: one is the frames of a request, one I and Q
constexpr std::size_t max_frame_bytes = std::size_t{1} << 47U;  // what a process can address

/// Whether a frame has no more bytes than that; tensor_spec::bytes of others may wrap.
bool is_addressable(const tensor_spec& spec) {
  std::size_t bytes = size_of(spec.type);
  for (const std::int64_t extent : spec.shape) {
    if (static_cast<std::uint64_t>(extent) > max_frame_bytes / bytes) {
      return false;
    }
    bytes *= static_cast<std::size_t>(extent);
  }
  return true;
}

std::string too_many_steps() {
  return "a step of its result would stand for more than " + std::to_string(step_rates::most_steps) +
         " steps of the pipeline's input, or the rates up to it would have no shorter period";
}

/// One run of the check over one declaration.
class checker {
 public:
  explicit checker(pipeline_declaration& declared) : pipeline_(declared) {}

  void run() {
    check_names();
    check_inputs();
    resolve_sources();
    check_order();
    resolve_outputs();
    for (const std::size_t stage : order_) {
      check_stage(stage);
    }
    check_outputs();
    check_taken();
    check_state();
    put_in_order();
  }

 private:
  void check_names();
  void check_inputs() const;
  void check_input(const tensor_spec& input, const std::string& field) const;
  [[nodiscard]] std::vector<std::string> named_inputs(std::size_t index) const;
  void resolve_sources();
  void check_order();
  void resolve_outputs();
  void check_outputs();
  void check_taken() const;
  void check_stage(std::size_t index);
  void check_tunable(std::size_t index, const operator_definition& definition, std::vector<tensor_spec> inputs);
  void check_lengths(std::size_t index, const std::vector<tensor_spec>& inputs);
  void check_state() const;
  void put_in_order();

  [[noreturn]] void refuse_own(const std::string& field, const std::string& message) const {
    refuse(pipeline_.place(field), message);
  }
  [[noreturn]] void refuse_stage(std::size_t index, const std::string& field, const std::string& message) const {
    refuse(pipeline_.stages[index].place(pipeline_.name, field), message);
  }
  /// The place of a stage; pipeline_.stages.size() when there is none of that name.
  [[nodiscard]] std::size_t place_of(std::string_view name) const {
    const auto found = std::find_if(pipeline_.stages.begin(), pipeline_.stages.end(),
                                    [&](const stage_declaration& stage) { return stage.name == name; });
    return static_cast<std::size_t>(found - pipeline_.stages.begin());
  }
  /// The place of the stage that `source`, "STAGE" or "STAGE.OUTPUT", names; as place_of.
  [[nodiscard]] std::size_t stage_of(std::string_view source) const {
    std::size_t place = place_of(source);
    for (std::size_t dot = source.rfind('.'); place == pipeline_.stages.size() && dot != source.npos && dot != 0;
         dot = source.rfind('.', dot - 1)) {
      place = place_of(source.substr(0, dot));
    }
    return place;
  }
  /// The pipeline's input that `source` names; nullptr if it names none.
  [[nodiscard]] const tensor_spec* input_of(std::string_view source) const {
    const auto found = std::find_if(inputs_.begin(), inputs_.end(),
                                    [source](const operator_output& each) { return each.name == source; });
    return found == inputs_.end() ? nullptr : &found->spec;
  }
  [[nodiscard]] bool exists(std::string_view source) const { return stage_of(source) < pipeline_.stages.size(); }
  /// The output that `source` names, of a stage that has been checked; nullptr and why not.
  [[nodiscard]] std::pair<const tensor_spec*, std::string> output_of(std::string_view source) const {
    const stage_declaration& stage = pipeline_.stages[stage_of(source)];
    if (stage.named_outputs.empty()) {
      return source == stage.name
                 ? std::pair{&stage.output, std::string()}
                 : std::pair{nullptr, "stage '" + stage.name + "' has one output: read '" + stage.name + "'"};
    }
    std::vector<std::string_view> known;
    std::string all;
    for (const operator_output& each : stage.named_outputs) {
      if (each.name == source) {
        return {&each.spec, ""};
      }
      known.emplace_back(each.name);
      all += (all.empty() ? "'" : ", '") + each.name + "'";
    }
    return {nullptr, "stage '" + stage.name + "' has the outputs " + all + suggestion(std::string(source), known)};
  }

  pipeline_declaration& pipeline_;
  const std::vector<operator_output> inputs_ = pipeline_.all_inputs();
  std::vector<std::string_view> names_;  // of the stages; views of pipeline_.stages until put_in_order
  stage_graph graph_;
  std::vector<std::size_t> order_;
  std::size_t tunable_ = 0;  // numbers of tuned stages that have been checked
};

constexpr const char* name_rule = "a name is 1 to 64 of A-Z a-z 0-9 _ . -";

void checker::check_names() {
  if (!is_name(pipeline_.name)) {
    refuse_own("name", "'" + pipeline_.name + "' is not a name; " + name_rule);
  }
  if (pipeline_.stages.empty()) {
    refuse_own("stage", "has no stage; add a [[pipeline.stage]]");
  }
  if (pipeline_.stages.size() > max_stages) {
    refuse_own("stage", "has " + std::to_string(pipeline_.stages.size()) + " stages; allowed are 1 to " +
                            std::to_string(max_stages));
  }
  for (std::size_t index = 0; index < pipeline_.stages.size(); ++index) {
    const stage_declaration& stage = pipeline_.stages[index];
    if (!is_name(stage.name)) {
      refuse_stage(index, "name", "'" + stage.name + "' is not a name; " + name_rule);
    }
    if (stage.name == input_name || input_of(stage.name) != nullptr) {
      refuse_stage(index, "name", "'" + stage.name + "' is the pipeline's own input; call the stage something else");
    }
    if (const std::size_t first = place_of(stage.name); first != index) {
      refuse_stage(
          index, "name",
          "a stage of this name is on line " + std::to_string(pipeline_.stages[first].position.line) + " already");
    }
    names_.emplace_back(stage.name);
  }
}

void checker::check_inputs() const {
  if (pipeline_.batch.max_frames < 1) {
    refuse_own("batch.max_frames", std::to_string(pipeline_.batch.max_frames) + " is given; allowed are 1 and more");
  }
  if (pipeline_.inputs.empty()) {
    check_input(pipeline_.input, "input");
    return;
  }
  if (inputs_.size() > max_inputs) {
    refuse_own("inputs", std::to_string(inputs_.size()) + " are given; allowed are 1 to " + std::to_string(max_inputs));
  }
  std::size_t bytes = 0;
  for (auto each = inputs_.begin(); each != inputs_.end(); ++each) {
    if (!is_name(each->name)) {
      refuse_own("inputs", "'" + each->name + "' is not a name; " + name_rule);
    }
    if (std::any_of(inputs_.begin(), each, [&](const operator_output& other) { return other.name == each->name; })) {
      refuse_own("inputs", "'" + each->name + "' is given twice");
    }
    check_input(each->spec, "inputs");
    const tensor_spec& first = inputs_.front().spec;
    if (each->spec.variable && (!first.variable || first.shape.front() != each->spec.shape.front())) {
      refuse_own("inputs", "'" + each->name + "' is " + each->spec.text() + ", and the first one " + first.text() +
                               ": one of \"max N\" needs that first extent of the first too, because the frames of a "
                               "request have one length");
    }
    bytes += each->spec.bytes();
  }
  if (bytes > pipeline_.batch.max_bytes) {
    refuse_own("batch.max_bytes", "a batch holds " + std::to_string(pipeline_.batch.max_bytes) +
                                      " bytes, less than one frame of all inputs; raise max_bytes or make the frames "
                                      "smaller");
  }
}

void checker::check_input(const tensor_spec& input, const std::string& field) const {
  if (input.shape.empty() || input.shape.size() > max_extents) {
    refuse_own(field, "its shape has " + std::to_string(input.shape.size()) + " extents; allowed are 1 to " +
                          std::to_string(max_extents));
  }
  std::size_t bytes = size_of(input.type);
  for (const std::int64_t extent : input.shape) {
    if (extent < 1) {
      refuse_own(field, "an extent of " + std::to_string(extent) + " is given; allowed are 1 and more");
    }
    if (static_cast<std::uint64_t>(extent) > pipeline_.batch.max_bytes / bytes) {
      refuse_own("batch.max_bytes", "a batch holds " + std::to_string(pipeline_.batch.max_bytes) +
                                        " bytes, less than one input frame of " + input.text() +
                                        "; raise max_bytes or make the frame smaller");
    }
    bytes *= static_cast<std::size_t>(extent);
  }
}

/// What a map or a model reads that says it in `inputs` alone.
std::vector<std::string> checker::named_inputs(std::size_t index) const {
  const stage_declaration& stage = pipeline_.stages[index];
  std::vector<std::string> names;
  try {
    if (stage.op == "map" || stage.op == "model") {
      const parameters& inputs = stage.settings.table("inputs");
      for (const auto& [name, value] : inputs) {
        names.push_back(inputs.text(name));
      }
    }
  } catch (const parameter_error& error) {
    refuse_stage(index, "inputs", error.what());
  }
  return names;
}

void checker::resolve_sources() {
  graph_.reads.resize(pipeline_.stages.size());
  for (std::size_t index = 0; index < pipeline_.stages.size(); ++index) {
    auto& from = pipeline_.stages[index].from;
    const std::vector<std::string> named = named_inputs(index);
    const bool by_name = from.empty() && !named.empty();
    if (by_name) {
      from = named;
    } else if (pipeline_.stages[index].op == "model" && !named.empty() && from != named) {
      refuse_stage(index, "from", "stands beside 'inputs', which says what a model reads: leave one out");
    }
    if (from.empty()) {
      from.push_back(index == 0 ? inputs_.front().name : pipeline_.stages[index - 1].name);
    }
    for (const std::string& source : from) {
      if (input_of(source) != nullptr) {
        continue;
      }
      if (!exists(source)) {
        std::vector<std::string_view> known = names_;
        std::erase(known, pipeline_.stages[index].name);
        for (const operator_output& each : inputs_) {
          known.emplace_back(each.name);
        }
        refuse_stage(index, by_name ? "inputs" : "from",
                     "there is no stage '" + source + "'" + suggestion(source, known));
      }
      graph_.reads[index].push_back(stage_of(source));
    }
  }
}

void checker::check_order() {
  const std::vector<std::size_t> cycle = graph_.cycle();
  if (!cycle.empty()) {
    std::string path;
    for (const std::size_t stage : cycle) {
      path += "'" + pipeline_.stages[stage].name + "' reads from ";
    }
    refuse_stage(cycle.front(), "from",
                 "the stages go round in a circle: " + path + "'" + pipeline_.stages[cycle.front()].name + "'");
  }
  order_ = graph_.running_order();
}

void checker::resolve_outputs() {
  auto& outputs = pipeline_.outputs;
  for (auto output = outputs.begin(); output != outputs.end(); ++output) {
    if (!exists(*output)) {
      refuse_own("outputs", "there is no stage '" + *output + "'" + suggestion(*output, names_));
    }
    if (std::find(outputs.begin(), output, *output) != output) {
      refuse_own("outputs", "'" + *output + "' is given twice");
    }
  }
}

void checker::check_outputs() {
  auto& outputs = pipeline_.outputs;
  if (outputs.empty()) {
    for (operator_output& each : pipeline_.stages.back().outputs()) {
      outputs.push_back(std::move(each.name));
    }
  }
  if (outputs.size() > max_outputs) {
    refuse_own("outputs",
               std::to_string(outputs.size()) + " are given; allowed are 1 to " + std::to_string(max_outputs));
  }
  for (const std::string& output : outputs) {
    if (const auto [spec, problem] = output_of(output); spec == nullptr) {
      refuse_own("outputs", "there is no '" + output + "': " + problem);
    }
  }
}

void checker::check_taken() const {
  std::set<std::size_t> taken;
  for (const std::string& output : pipeline_.outputs) {
    taken.insert(stage_of(output));
  }
  for (const std::vector<std::size_t>& reads : graph_.reads) {
    taken.insert(reads.begin(), reads.end());
  }
  for (const operator_output& input : pipeline_.inputs) {
    const bool is_read = std::any_of(pipeline_.stages.begin(), pipeline_.stages.end(), [&](const auto& stage) {
      return std::find(stage.from.begin(), stage.from.end(), input.name) != stage.from.end();
    });
    if (!is_read) {
      refuse_own("inputs", "no stage reads '" + input.name + "'");
    }
  }
  for (std::size_t index = 0; index < pipeline_.stages.size(); ++index) {
    if (!taken.contains(index)) {
      refuse_stage(index, "", "nobody takes its result; add it to the pipeline's outputs, read from it, or remove it");
    }
  }
}

void checker::check_stage(std::size_t index) {
  stage_declaration& stage = pipeline_.stages[index];
  const operator_definition* definition = find_operator(stage.op);
  if (definition == nullptr) {
    refuse_stage(index, "op", "there is no operator '" + stage.op + "'" + suggestion(stage.op, operator_names()));
  }
  for (const auto& [key, value] : stage.settings) {
    if (std::find(definition->keys.begin(), definition->keys.end(), key) == definition->keys.end()) {
      std::vector<std::string_view> known(definition->keys.begin(), definition->keys.end());
      known.insert(known.end(), {"name", "op", "from", "tunable"});
      refuse_stage(index, key, "operator '" + stage.op + "' has no such parameter" + suggestion(key, known));
    }
  }
  std::vector<tensor_spec> inputs;
  for (const std::string& source : stage.from) {
    if (const tensor_spec* const own = input_of(source)) {
      inputs.push_back(*own);
      continue;
    }
    const auto [spec, problem] = output_of(source);
    if (spec == nullptr) {
      refuse_stage(index, "from", "there is no '" + source + "': " + problem);
    }
    inputs.push_back(*spec);
  }
  try {
    stage.output = definition->infer(operator_settings(stage), inputs);
    if (definition->session != nullptr) {
      stage.session = definition->session(stage.settings, inputs);
    }
    stage.axis = axis_of(*definition, stage.settings, inputs);
    if (definition->named_outputs != nullptr) {
      stage.named_outputs = definition->named_outputs(stage.settings, inputs);
    }
  } catch (const parameter_error& error) {
    refuse_stage(index, error.field, error.what());
  }
  check_lengths(index, inputs);
  check_tunable(index, *definition, std::move(inputs));
  for (operator_output& each : stage.named_outputs) {
    each.name.insert(0, stage.name + ".");
    if (place_of(each.name) != pipeline_.stages.size()) {
      refuse_stage(index, "", "its output '" + each.name + "' has the name of another stage");
    }
    if (input_of(each.name) != nullptr) {
      refuse_stage(index, "", "its output '" + each.name + "' has the name of an input");
    }
  }
  for (const operator_output& each : stage.outputs()) {
    if (each.spec.shape.size() > max_extents) {
      refuse_stage(index, "",
                   "its result, " + each.spec.text() + ", has more than " + std::to_string(max_extents) + " extents");
    }
    if (!is_addressable(each.spec)) {
      refuse_stage(index, "", "its result, " + each.spec.text() + ", is larger than memory can be");
    }
  }
}

void checker::check_tunable(std::size_t index, const operator_definition& definition, std::vector<tensor_spec> inputs) {
  stage_declaration& stage = pipeline_.stages[index];
  if (stage.tunable.empty()) {
    return;
  }
  if (definition.tunable != nullptr) {
    stage.numbers = definition.tunable(operator_settings(stage), inputs);
  }
  std::vector<std::string_view> known;
  std::string all;
  for (const tunable_number& each : stage.numbers) {
    known.emplace_back(each.name);
    all += (all.empty() ? "'" : ", '") + each.name + "'";
  }
  for (auto name = stage.tunable.begin(); name != stage.tunable.end(); ++name) {
    if (std::find(known.begin(), known.end(), *name) == known.end()) {
      refuse_stage(index, "tunable",
                   "'" + *name + "' can't change while the stage runs; " +
                       (known.empty() ? "nothing of this one can" : "of this one " + all + " can") +
                       suggestion(*name, known));
    }
    if (std::find(stage.tunable.begin(), name, *name) != name) {
      refuse_stage(index, "tunable", "'" + *name + "' is given twice");
    }
    if (!is_name(*name)) {
      refuse_stage(index, "tunable", "'" + *name + "' is not a name; " + name_rule);
    }
  }
  tunable_ += stage.numbers.size();
  if (tunable_ > max_tunable) {
    refuse_stage(index, "tunable",
                 "would have " + std::to_string(tunable_) +
                     " numbers travel with each frame, all that such stages have; allowed are at most " +
                     std::to_string(max_tunable));
  }
  stage.inputs = std::move(inputs);
}

// Whether each result is made of a frame's whole first dimension, although there are as many results.
bool takes_whole_frames(const stage_declaration& stage, const std::vector<tensor_spec>& inputs) {
  if (stage.op == "map") {
    const std::vector<map_step> steps = parse_map(operator_settings(stage), inputs).steps;
    return std::any_of(steps.begin(), steps.end(),
                       [](const map_step& step) { return step.operation == map_operation::length; });
  }
  return !stage.session && stage.axis == std::size_t{0};
}

// Follows how long the variable frames of a session become. The lengths of two inputs must agree at every moment, and
// where they differ from frame to frame only what works step by step makes sense of them.
void checker::check_lengths(std::size_t index, const std::vector<tensor_spec>& inputs) {
  stage_declaration& stage = pipeline_.stages[index];
  std::optional<step_rates> rate;
  for (const std::string& source : stage.from) {
    const tensor_spec* const own = input_of(source);
    if (!(own != nullptr ? *own : *output_of(source).first).variable) {
      continue;
    }
    const step_rates its = own != nullptr ? step_rates{} : pipeline_.stages[stage_of(source)].rate;
    if (rate && *rate != its) {
      refuse_stage(index, "from",
                   "its inputs have frames of different lengths: '" + source +
                       "' has another rate, or gives its steps at other moments");
    }
    rate = its;
  }
  const step_rates given = rate.value_or(step_rates{});
  const std::vector<operator_output> outputs = stage.outputs();
  const bool takes_any_length = stage.session && stage.session->frame_results;
  if (given.ragged() && !takes_any_length &&
      (takes_whole_frames(stage, inputs) ||
       !std::all_of(outputs.begin(), outputs.end(), [](const operator_output& each) { return each.spec.variable; }))) {
    refuse_stage(index, "from",
                 "its input's length differs from frame to frame, so nothing can be made of a frame as a whole; a "
                 "'reframe' stage before it makes frames of one length");
  }
  if (stage.session && !given.may_precede(stage.session->rate)) {
    refuse_stage(index, "", too_many_steps());
  }
  stage.rate = stage.session ? given.then(stage.session->rate) : given;
}

void checker::check_state() const {
  const bool keeps = std::any_of(pipeline_.stages.begin(), pipeline_.stages.end(),
                                 [](const stage_declaration& stage) { return stage.session.has_value(); });
  if (keeps && pipeline_.overflow == overflow_policy::drop_oldest) {
    refuse_own("overflow", "\"drop-oldest\" would tear a hole into what the pipeline's stages keep; use \"reject\"");
  }
}

void checker::put_in_order() {
  std::vector<stage_declaration> ordered;
  ordered.reserve(order_.size());
  for (const std::size_t index : order_) {
    ordered.push_back(std::move(pipeline_.stages[index]));
  }
  pipeline_.stages = std::move(ordered);
}

}  // namespace

bool is_name(std::string_view name) noexcept {
  constexpr std::size_t longest = 64;
  return !name.empty() && name.size() <= longest && std::all_of(name.begin(), name.end(), [](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') || (letter >= '0' && letter <= '9') ||
           letter == '_' || letter == '.' || letter == '-';
  });
}

namespace {

/// A dimension of at most so many is short: rather channels than time.
constexpr std::int64_t most_channels = 64;

/// Of at most so many, a spectrum has no use: rather across channels than along time.
constexpr std::int64_t most_of_handful = 8;

/// What works on each row, along the last dimension or its axis.
constexpr std::array<std::string_view, 12> row_operators{"correlate",      "detect", "detrend", "fft",
                                                         "histogram",      "ifft",   "mel",     "moments",
                                                         "power_spectrum", "reduce", "top",     "window"};

bool works_on_rows(const stage_declaration& stage) {
  return !stage.session && std::find(row_operators.begin(), row_operators.end(), stage.op) != row_operators.end();
}

/// How the frames of the input, or of a stage's output, lie.
struct layout {
  tensor_spec spec;
  bool is_of_first = false;  ///< made of the pipeline's first input
  std::size_t axis = 0;      ///< the dimension that is time
  time_extent extent{};      ///< of that; of 0 steps where none is
  step_timing timing{};      ///< see timing_of_stages
  bool is_planar = false;    ///< one row a channel
  bool is_reframed = false;  ///< its rows were made of a session's steps
  bool is_row_made = false;  ///< its last dimension is what an operator made of a row
};

/// Of a stage that puts dimensions in another order, by dimension of its output that of its input; of others none.
std::vector<std::size_t> order_of_axes(const stage_declaration& stage) {
  if (stage.op != "transpose" && !(stage.op == "convert" && stage.settings.flag("planar", false))) {
    return {};
  }
  const std::size_t axes = stage.output.shape.size();
  std::vector<std::size_t> order(axes);
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  if (stage.settings.has("axes")) {
    const std::vector<double> given = stage.settings.numbers("axes");
    std::transform(given.begin(), given.end(), order.begin(), [axes](double axis) {
      return static_cast<std::size_t>(axis < 0 ? axis + static_cast<double>(axes) : axis);
    });
  }
  return order;
}

/// Whether it removes the axis along which it works, and puts its results behind the others.
bool removes_axis(const stage_declaration& stage) {
  constexpr std::array<std::string_view, 5> all{"detect", "histogram", "moments", "reduce", "top"};
  return std::find(all.begin(), all.end(), stage.op) != all.end();
}

bool is_spectrum(const stage_declaration& stage) {
  return stage.op == "power_spectrum" || stage.op == "fft";
}

/// Whether the steps of its sessions are indices of a dimension.
bool steps_along_axis(const stage_declaration& stage) {
  return stage.session && !stage.session->whole_frames;
}

/// Whether the product of both numbers, of what an operator makes of these steps, is at most step_rates::most_steps.
bool may_precede(const time_extent& extent, const step_rate& rate) noexcept {
  const std::int64_t of_steps = std::gcd(extent.steps, rate.multiplier);
  const std::int64_t of_indices = std::gcd(extent.indices, rate.divisor);
  return static_cast<double>(extent.steps / of_steps) * static_cast<double>(rate.divisor / of_indices) *
             static_cast<double>(extent.indices / of_indices) * static_cast<double>(rate.multiplier / of_steps) <=
         static_cast<double>(step_rates::most_steps);
}

/// Whether these are those of time.
bool steps_in_time(const stage_declaration& stage, const layout& source) {
  return steps_along_axis(stage) && source.extent.steps > 0 && source.axis == stage.session->axis;
}

/// Where time lies behind a stage without state.
void follow_time(const stage_declaration& stage, const layout& source, layout& made) {
  const std::vector<std::size_t> order = order_of_axes(stage);
  if (!order.empty()) {
    made.axis = static_cast<std::size_t>(std::find(order.begin(), order.end(), source.axis) - order.begin());
    made.is_planar = order.front() == 0 ? source.is_planar : made.extent.steps == 0 || made.axis != 0;
  } else if (stage.axis == source.axis) {
    made.extent = {.steps = 0};  // joined, or worked on as rows
  } else if (stage.axis && *stage.axis < source.axis) {
    made.axis = removes_axis(stage) ? source.axis - 1 : source.axis + made.spec.shape.size() - source.spec.shape.size();
  }
}

layout layout_behind(const pipeline_declaration& pipeline, const stage_declaration& stage, const layout& source) {
  layout made = source;
  made.spec = stage.output;
  if (stage.session && stage.session->frame_results) {
    made.is_row_made = true;
    made.extent = {.steps = 0};
  } else if (steps_along_axis(stage)) {
    const bool in_time = steps_in_time(stage, source);
    if (in_time && !may_precede(source.extent, stage.session->rate)) {
      refuse(stage.place(pipeline.name), too_many_steps());
    }
    made.axis = stage.session->axis;
    made.extent = in_time ? source.extent.then(stage.session->rate) : time_extent{.steps = 0};
    made.timing = in_time ? source.timing.then(*stage.session) : source.timing;
    if (std::abs(made.timing.first) > static_cast<double>(step_rates::most_steps)) {
      refuse(stage.place(pipeline.name), "its result would be late by more than " +
                                             std::to_string(step_rates::most_steps) + " steps of the pipeline's input");
    }
    const bool is_spectra = stage.op == "stft";
    made.is_reframed = made.is_reframed || is_spectra || stage.op == "reframe";
    made.is_row_made = is_spectra || (made.is_row_made && stage.op != "istft");
  }
  if (works_on_rows(stage)) {
    const bool was_last = !stage.axis || *stage.axis + 1 == source.spec.shape.size();
    const bool becomes_last = removes_axis(stage) && stage.op != "reduce";
    made.is_row_made = becomes_last || (was_last ? stage.op != "reduce" : made.is_row_made);
  }
  if (!stage.session) {
    follow_time(stage, source, made);
  }
  return made;
}

bool takes_axis(const stage_declaration& stage) {
  const std::span<const std::string_view> keys = find_operator(stage.op)->keys;
  return std::find(keys.begin(), keys.end(), "axis") != keys.end();
}

/// "the first dimension", "axis 1".
std::string dimension_text(std::size_t axis) {
  return axis == 0 ? "the first dimension" : "axis " + std::to_string(axis);
}

std::string doubt_about(const stage_declaration& stage, const layout& source) {
  const auto& shape = source.spec.shape;
  if (shape.size() < 2) {
    return "";
  }
  const std::int64_t first = shape.front();
  const std::int64_t last = shape.back();
  const bool names_axis = stage.settings.has("axis");
  const bool last_is_time = source.extent.steps > 0 && source.axis + 1 == shape.size();
  if (works_on_rows(stage) && !source.is_row_made && !names_axis && !last_is_time &&
      ((last <= most_channels && last < shape[shape.size() - 2]) || (is_spectrum(stage) && last <= most_of_handful))) {
    return "'" + stage.op + "' works along the last dimension of " + source.spec.text() + ", which has " +
           std::to_string(last) +
           " elements: if these are channels, name the right one by 'axis', or see \"Several channels\", "
           "docs/channels.md";
  }
  if (!steps_along_axis(stage)) {
    return "";
  }
  const std::size_t axis = stage.session->axis;
  const bool is_elsewhere = source.extent.steps > 0 && source.axis != axis;
  const bool looks_planar = stage.op != "istft" && !source.spec.variable && !source.is_reframed &&
                            source.extent.steps > 0 && first > 1 && first <= most_channels && first < last;
  if (is_elsewhere || (!names_axis && (source.is_planar || looks_planar))) {
    const bool may_name = !source.spec.variable && takes_axis(stage);
    return "'" + stage.op + "' takes " + dimension_text(axis) + " of " + source.spec.text() + " for time, " +
           std::to_string(shape[axis]) + " steps a frame: if these are channels, " +
           (may_name ? "name the right one by 'axis', or " : "") + "see \"Several channels\", docs/channels.md";
  }
  return "";
}

/// Calls `each(stage, source, result)` in the stages' order, `source` being the layout of what it reads first. The
/// input's dimension `time_axis` is time. Throws configuration_error where steps can't be counted.
template <class Each>
void walk(const pipeline_declaration& pipeline, std::size_t time_axis, const Each& each) {
  std::map<std::string, layout, std::less<>> known;
  const std::vector<operator_output> inputs = pipeline.all_inputs();
  for (const operator_output& input : inputs) {
    // Of a template or a mask beside frames of "max N", the first dimension is not time.
    known[input.name] = {.spec = input.spec,
                         .is_of_first = input.name == inputs.front().name,
                         .axis = input.spec.shape == pipeline.input.shape ? time_axis : 0,
                         .extent = {.steps = pipeline.input.variable && !input.spec.variable ? 0 : 1}};
  }
  for (const stage_declaration& stage : pipeline.stages) {
    const layout& source = known.at(stage.from.front());
    layout result = layout_behind(pipeline, stage, source);
    each(stage, source, result);
    for (const operator_output& output : stage.outputs()) {
      result.spec = output.spec;
      known.emplace(output.name, result);
    }
  }
}

/// The first input's dimension that, followed through the stages, is that along which one of them steps; another one
/// than the first only where a stage names it.
std::size_t time_axis_of(const pipeline_declaration& pipeline) {
  const std::size_t axes = pipeline.input.variable ? 1 : pipeline.input.shape.size();
  for (std::size_t axis = 0; axis < axes; ++axis) {
    bool found = false;
    walk(pipeline, axis, [&](const stage_declaration& stage, const layout& source, const auto& /*result*/) {
      found =
          found || (source.is_of_first && steps_in_time(stage, source) && (axis == 0 || stage.settings.has("axis")));
    });
    if (found) {
      return axis;
    }
  }
  return 0;
}

}  // namespace

pipeline_declaration check_pipeline(pipeline_declaration declared) {
  checker(declared).run();
  declared.time_axis = time_axis_of(declared);
  walk(declared, declared.time_axis, [](const auto& /*stage*/, const auto& /*source*/, const auto& /*result*/) {});
  return declared;
}

std::vector<time_extent> time_extents_of_stages(const pipeline_declaration& pipeline) {
  std::vector<time_extent> all;
  walk(pipeline, pipeline.time_axis, [&all](const auto& /*stage*/, const auto& /*source*/, const layout& result) {
    all.push_back(result.axis == 0 ? result.extent : time_extent{.steps = 0});
  });
  return all;
}

std::vector<step_timing> timing_of_stages(const pipeline_declaration& pipeline) {
  std::vector<step_timing> all;
  walk(pipeline, pipeline.time_axis,
       [&all](const auto& /*stage*/, const auto& /*source*/, const layout& result) { all.push_back(result.timing); });
  return all;
}

std::vector<std::string> doubts_about(const pipeline_declaration& pipeline) {
  std::vector<std::string> all;
  walk(pipeline, pipeline.time_axis, [&](const stage_declaration& stage, const layout& source, const auto& /*result*/) {
    if (const std::string doubt = doubt_about(stage, source); !doubt.empty()) {
      all.push_back(stage.place(pipeline.name).text() + ": " + doubt);
    }
  });
  return all;
}

}  // namespace penstock

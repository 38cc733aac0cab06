#include "daemon/pipeline/check.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "daemon/pipeline/configuration_place.hpp"
#include "daemon/pipeline/stage_graph.hpp"
#include "daemon/pipeline/suggestion.hpp"
#include "kernels/operation.hpp"

namespace penstock {
namespace {

constexpr std::size_t max_outputs = 64;  // as many tensors as one message of the wire carries
constexpr std::size_t max_stages = 512;  // two batches of one pipeline have to fit into a stream's queue
constexpr std::size_t max_extents = 6;   // the wire carries 8: one is the frames of a request, one I and Q

/// One run of the check over one declaration.
class checker {
 public:
  checker(pipeline_declaration& declared, const field_lines& lines) : pipeline_(declared), lines_(lines) {}

  void run() {
    check_names();
    check_input();
    resolve_sources();
    check_order();
    resolve_outputs();
    check_taken();
    for (const std::size_t stage : order_) {
      check_stage(stage);
    }
    check_state();
    put_in_order();
  }

 private:
  void check_names();
  void check_input() const;
  void resolve_sources();
  void check_order();
  void resolve_outputs();
  void check_taken() const;
  void check_stage(std::size_t index);
  void check_lengths(std::size_t index);
  void check_state() const;
  void put_in_order();

  [[noreturn]] void refuse_own(const std::string& field, const std::string& message) const {
    source_position at = pipeline_.position;
    at.line = lines_.line(field_lines::own, field, at.line);
    refuse({at, pipeline_.name, "", field}, message);
  }
  [[noreturn]] void refuse_stage(std::size_t index, const std::string& field, const std::string& message) const {
    const stage_declaration& stage = pipeline_.stages[index];
    source_position at = stage.position;
    at.line = lines_.line(index, field, at.line);
    refuse({at, pipeline_.name, stage.name, field}, message);
  }
  /// The place of a stage; pipeline_.stages.size() when there is none of that name.
  [[nodiscard]] std::size_t place_of(std::string_view name) const {
    const auto found = std::find_if(pipeline_.stages.begin(), pipeline_.stages.end(),
                                    [&](const stage_declaration& stage) { return stage.name == name; });
    return static_cast<std::size_t>(found - pipeline_.stages.begin());
  }
  [[nodiscard]] bool exists(std::string_view name) const { return place_of(name) < pipeline_.stages.size(); }

  pipeline_declaration& pipeline_;
  const field_lines& lines_;
  std::vector<std::string_view> names_;  // of the stages; views of pipeline_.stages until put_in_order
  stage_graph graph_;
  std::vector<std::size_t> order_;
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
    if (stage.name == input_name) {
      refuse_stage(index, "name", "'input' is the pipeline's own input; call the stage something else");
    }
    if (const std::size_t first = place_of(stage.name); first != index) {
      refuse_stage(
          index, "name",
          "a stage of this name is on line " + std::to_string(pipeline_.stages[first].position.line) + " already");
    }
    names_.emplace_back(stage.name);
  }
}

void checker::check_input() const {
  const tensor_spec& input = pipeline_.input;
  if (input.shape.empty() || input.shape.size() > max_extents) {
    refuse_own("input", "its shape has " + std::to_string(input.shape.size()) + " extents; allowed are 1 to " +
                            std::to_string(max_extents));
  }
  std::size_t bytes = size_of(input.type);
  for (const std::int64_t extent : input.shape) {
    if (extent < 1) {
      refuse_own("input", "an extent of " + std::to_string(extent) + " is given; allowed are 1 and more");
    }
    if (static_cast<std::uint64_t>(extent) > pipeline_.batch.max_bytes / bytes) {
      refuse_own("batch.max_bytes", "a batch holds " + std::to_string(pipeline_.batch.max_bytes) +
                                        " bytes, less than one input frame of " + input.text() +
                                        "; raise max_bytes or make the frame smaller");
    }
    bytes *= static_cast<std::size_t>(extent);
  }
  if (pipeline_.batch.max_frames < 1) {
    refuse_own("batch.max_frames", std::to_string(pipeline_.batch.max_frames) + " is given; allowed are 1 and more");
  }
}

void checker::resolve_sources() {
  graph_.reads.resize(pipeline_.stages.size());
  for (std::size_t index = 0; index < pipeline_.stages.size(); ++index) {
    auto& from = pipeline_.stages[index].from;
    if (from.empty()) {
      from.emplace_back(index == 0 ? input_name : std::string_view(pipeline_.stages[index - 1].name));
    }
    for (const std::string& source : from) {
      if (source == input_name) {
        continue;
      }
      if (!exists(source)) {
        std::vector<std::string_view> known = names_;
        known.push_back(input_name);
        refuse_stage(index, "from", "there is no stage '" + source + "'" + suggestion(source, known));
      }
      graph_.reads[index].push_back(place_of(source));
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
  if (outputs.empty()) {
    outputs.push_back(pipeline_.stages.back().name);
  }
  if (outputs.size() > max_outputs) {
    refuse_own("outputs",
               std::to_string(outputs.size()) + " are given; allowed are 1 to " + std::to_string(max_outputs));
  }
  for (auto output = outputs.begin(); output != outputs.end(); ++output) {
    if (!exists(*output)) {
      refuse_own("outputs", "there is no stage '" + *output + "'" + suggestion(*output, names_));
    }
    if (std::find(outputs.begin(), output, *output) != output) {
      refuse_own("outputs", "'" + *output + "' is given twice");
    }
  }
}

void checker::check_taken() const {
  std::set<std::string_view> taken(pipeline_.outputs.begin(), pipeline_.outputs.end());
  for (const stage_declaration& stage : pipeline_.stages) {
    taken.insert(stage.from.begin(), stage.from.end());
  }
  for (std::size_t index = 0; index < pipeline_.stages.size(); ++index) {
    if (!taken.contains(pipeline_.stages[index].name)) {
      refuse_stage(index, "", "nobody takes its result; add it to the pipeline's outputs, read from it, or remove it");
    }
  }
}

void checker::check_stage(std::size_t index) {
  stage_declaration& stage = pipeline_.stages[index];
  const operator_definition* definition = find_operator(stage.op);
  if (definition == nullptr) {
    std::vector<std::string_view> known;
    for (const operator_definition& each : operator_catalogue()) {
      known.push_back(each.name);
    }
    refuse_stage(index, "op", "there is no operator '" + stage.op + "'" + suggestion(stage.op, known));
  }
  for (const auto& [key, value] : stage.settings) {
    if (std::find(definition->keys.begin(), definition->keys.end(), key) == definition->keys.end()) {
      std::vector<std::string_view> known(definition->keys.begin(), definition->keys.end());
      known.insert(known.end(), {"name", "op", "from"});
      refuse_stage(index, key, "operator '" + stage.op + "' has no such parameter" + suggestion(key, known));
    }
  }
  std::vector<tensor_spec> inputs;
  for (const std::string& source : stage.from) {
    inputs.push_back(source == input_name ? pipeline_.input : pipeline_.stages[place_of(source)].output);
  }
  try {
    stage.output = definition->infer(stage.settings, inputs);
    if (definition->session != nullptr) {
      stage.session = definition->session(stage.settings, inputs);
    }
  } catch (const parameter_error& error) {
    refuse_stage(index, error.field, error.what());
  }
  check_lengths(index);
  if (stage.output.shape.size() > max_extents) {
    refuse_stage(index, "",
                 "its result, " + stage.output.text() + ", has more than " + std::to_string(max_extents) + " extents");
  }
}

// Follows how long the variable frames of a session become. The lengths of two inputs must agree at every moment, and
// where they differ from frame to frame only what works step by step makes sense of them.
void checker::check_lengths(std::size_t index) {
  stage_declaration& stage = pipeline_.stages[index];
  std::optional<step_rate> rate;
  for (const std::string& source : stage.from) {
    const bool own = source == input_name;
    if (!(own ? pipeline_.input : pipeline_.stages[place_of(source)].output).variable) {
      continue;
    }
    const step_rate its = own ? step_rate{} : pipeline_.stages[place_of(source)].rate;
    if (rate && *rate != its) {
      refuse_stage(index, "from", "its inputs have frames of different lengths: '" + source + "' has another rate");
    }
    rate = its;
  }
  const step_rate given = rate.value_or(step_rate{});
  if (given.ragged() && !stage.output.variable) {
    refuse_stage(index, "from",
                 "its input's length differs from frame to frame, so nothing can be made of a frame as a whole; a "
                 "'reframe' stage before it makes frames of one length");
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

pipeline_declaration check_pipeline(pipeline_declaration declared, const field_lines& lines) {
  checker(declared, lines).run();
  return declared;
}

}  // namespace penstock

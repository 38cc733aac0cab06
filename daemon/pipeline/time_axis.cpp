#include "daemon/pipeline/time_axis.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

#include "daemon/pipeline/check.hpp"
#include "daemon/pipeline/configuration_place.hpp"

namespace penstock {
namespace {

/// A dimension of at most so many is short: rather channels than time.
constexpr std::int64_t most_channels = 64;

/// What works on each row, along the last dimension.
constexpr std::array<std::string_view, 6> row_operators{"correlate", "detect",         "histogram",
                                                        "moments",   "power_spectrum", "window"};

bool works_on_rows(const stage_declaration& stage) {
  return std::find(row_operators.begin(), row_operators.end(), stage.op) != row_operators.end();
}

/// How the frames of the input, or of a stage's output, lie.
struct layout {
  tensor_spec spec;
  std::int64_t steps = 1;    ///< see steps_of_stages
  bool is_planar = false;    ///< one row a channel
  bool is_reframed = false;  ///< its rows were made of a session's steps
  bool is_row_made = false;  ///< its last dimension is what an operator made of a row
};

bool swaps_axes(const stage_declaration& stage) {
  return stage.op == "convert" && stage.settings.flag("planar", false);
}

bool joins_first_axis(const stage_declaration& stage) {
  if (stage.op != "concat") {
    return false;
  }
  const std::int64_t axis = stage.settings.integer("axis", 0);
  return axis == 0 || -axis == static_cast<std::int64_t>(stage.output.shape.size());
}

bool steps_along_first(const stage_declaration& stage) {
  return stage.session && !stage.session->whole_frames;
}

layout layout_behind(const stage_declaration& stage, const layout& source) {
  layout made = source;
  made.spec = stage.output;
  if (steps_along_first(stage)) {
    made.steps *= stage.session->rate.divisor;
    made.is_reframed = made.is_reframed || stage.op == "reframe";
  }
  if (works_on_rows(stage)) {
    made.is_row_made = true;
    made.steps = source.spec.shape.size() == 1 ? 0 : made.steps;
  }
  if (swaps_axes(stage)) {
    made.is_planar = true;
    made.steps = 0;
  } else if (joins_first_axis(stage)) {
    made.steps = 0;
  }
  return made;
}

std::string doubt_about(const stage_declaration& stage, const layout& source) {
  const auto& shape = source.spec.shape;
  if (shape.size() < 2) {
    return "";
  }
  const std::int64_t first = shape.front();
  const std::int64_t last = shape.back();
  if (works_on_rows(stage) && !source.is_row_made && last <= most_channels && last < shape[shape.size() - 2]) {
    return "'" + stage.op + "' works along the last dimension of " + source.spec.text() + ", which has " +
           std::to_string(last) + " elements: if these are channels, see \"Several channels\", docs/channels.md";
  }
  if (!steps_along_first(stage)) {
    return "";
  }
  const bool looks_planar = !source.spec.variable && !source.is_reframed && source.steps > 0 && first > 1 &&
                            first <= most_channels && first < last;
  if (source.is_planar || looks_planar) {
    return "'" + stage.op + "' takes the first dimension of " + source.spec.text() + " for time, " +
           std::to_string(first) + " steps a frame: if these are channels, see \"Several channels\", docs/channels.md";
  }
  return "";
}

/// Calls `each(stage, source, behind)` in the stages' order, `source` being the layout of what it reads first.
template <class Each>
void walk(const pipeline_declaration& pipeline, const Each& each) {
  std::map<std::string_view, layout> known{{input_name, {.spec = pipeline.input}}};
  for (const stage_declaration& stage : pipeline.stages) {
    const layout& source = known.at(stage.from.front());
    const layout behind = layout_behind(stage, source);
    each(stage, source, behind);
    known.emplace(stage.name, behind);
  }
}

}  // namespace

std::vector<std::int64_t> steps_of_stages(const pipeline_declaration& pipeline) {
  std::vector<std::int64_t> all;
  walk(pipeline,
       [&all](const auto& /*stage*/, const auto& /*source*/, const layout& behind) { all.push_back(behind.steps); });
  return all;
}

std::vector<std::string> doubts_about(const pipeline_declaration& pipeline) {
  std::vector<std::string> all;
  walk(pipeline, [&](const stage_declaration& stage, const layout& source, const auto& /*behind*/) {
    if (const std::string doubt = doubt_about(stage, source); !doubt.empty()) {
      all.push_back(configuration_place{stage.position, pipeline.name, stage.name, ""}.text() + ": " + doubt);
    }
  });
  return all;
}

}  // namespace penstock

#include "daemon/pipeline/map_fusion.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include "daemon/pipeline/check.hpp"
#include "kernels/map.hpp"

namespace penstock {
namespace {

/// What is longer gains nothing by being one stage.
constexpr std::size_t most_fused_steps = 256;

std::vector<tensor_spec> specs_of(const pipeline_declaration& pipeline, const std::vector<std::string>& sources) {
  std::vector<tensor_spec> specs;
  for (const std::string& source : sources) {
    tensor_spec spec;
    for (operator_output& each : pipeline.all_inputs()) {
      spec = each.name == source ? std::move(each.spec) : spec;
    }
    for (const stage_declaration& stage : pipeline.stages) {
      for (operator_output& each : stage.outputs()) {
        spec = each.name == source ? std::move(each.spec) : spec;
      }
    }
    specs.push_back(std::move(spec));
  }
  return specs;
}

/// `reader` with `map` in it; nothing if it would be too large.
std::optional<stage_declaration> joined(const pipeline_declaration& pipeline, const stage_declaration& map,
                                        stage_declaration reader) {
  auto fused = std::make_shared<parameters>(reader.settings.table("fused"));
  parameters inner = map.settings;
  if (!inner.has("from")) {
    inner.set("from", map.from);
  }
  fused->set(map.name, std::make_shared<const parameters>(std::move(inner)));
  if (!reader.settings.has("from")) {
    reader.settings.set("from", reader.from);
  }
  reader.settings.set("fused", std::shared_ptr<const parameters>(std::move(fused)));
  std::vector<std::string> sources;
  const auto add = [&sources](const std::string& source) {
    if (std::find(sources.begin(), sources.end(), source) == sources.end()) {
      sources.push_back(source);
    }
  };
  for (const std::string& source : reader.from) {
    if (source == map.name) {
      std::for_each(map.from.begin(), map.from.end(), add);
    } else {
      add(source);
    }
  }
  reader.from = std::move(sources);
  try {
    const map_settings made = parse_map(operator_settings(reader), specs_of(pipeline, reader.from));
    return made.steps.size() <= most_fused_steps ? std::optional(std::move(reader)) : std::nullopt;
  } catch (const parameter_error&) {
    return std::nullopt;
  }
}

/// The only stage that reads from this one, once; otherwise its end.
std::vector<stage_declaration>::iterator sole_reader(pipeline_declaration& pipeline, const std::string& name) {
  auto reader = pipeline.stages.end();
  for (auto stage = pipeline.stages.begin(); stage != pipeline.stages.end(); ++stage) {
    const auto reads = std::count(stage->from.begin(), stage->from.end(), name);
    if (reads > 1 || (reads == 1 && reader != pipeline.stages.end())) {
      return pipeline.stages.end();
    }
    reader = reads == 1 ? stage : reader;
  }
  return reader;
}

/// Whether it was possible.
bool fuse(pipeline_declaration& pipeline, std::size_t index) {
  const stage_declaration& map = pipeline.stages[index];
  const bool goes_out = std::find(pipeline.outputs.begin(), pipeline.outputs.end(), map.name) != pipeline.outputs.end();
  if (map.op != "map" || goes_out || !map.tunable.empty() ||
      (map.output.type != element_type::f32 && map.output.type != element_type::cf32)) {
    return false;
  }
  const auto reader = sole_reader(pipeline, map.name);
  if (reader == pipeline.stages.end() || reader->op != "map" || !reader->tunable.empty() ||
      reader->output.shape != map.output.shape || reader->output.variable != map.output.variable) {
    return false;
  }
  std::optional<stage_declaration> made = joined(pipeline, map, *reader);
  if (!made) {
    return false;
  }
  *reader = *std::move(made);
  pipeline.stages.erase(pipeline.stages.begin() + static_cast<std::ptrdiff_t>(index));
  return true;
}

}  // namespace

parameters operator_settings(const stage_declaration& stage) {
  if (stage.op != "map") {
    return stage.settings;
  }
  parameters settings = map_with_names(stage.settings, stage.from);
  if (!stage.tunable.empty()) {
    settings.set("tuned", true);
  }
  return settings;
}

pipeline_declaration fuse_maps(pipeline_declaration pipeline) {
  for (std::size_t index = 0; index < pipeline.stages.size();) {
    index += fuse(pipeline, index) ? 0U : 1U;
  }
  return pipeline;
}

std::vector<std::string> fused_stages(const parameters& settings) {
  std::vector<std::string> all;
  for (const auto& [name, value] : settings.table("fused")) {
    for (std::string& inner : fused_stages(settings.table("fused").table(name))) {
      all.push_back(std::move(inner));
    }
    all.push_back(name);
  }
  return all;
}

}  // namespace penstock

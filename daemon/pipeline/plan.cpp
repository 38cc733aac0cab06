#include "daemon/pipeline/plan.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "daemon/pipeline/arena.hpp"
#include "daemon/pipeline/check.hpp"
#include "daemon/pipeline/configuration_place.hpp"

namespace penstock {
namespace {

std::size_t batch_bytes(const tensor_spec& spec, std::int64_t frames) {
  const std::size_t frame = spec.bytes();
  const auto count = static_cast<std::size_t>(frames);
  if (frame > std::numeric_limits<std::size_t>::max() / count) {
    throw std::length_error("the frames of a batch do not fit the address space");
  }
  return frame * count;
}

std::int64_t frames_of_batch(const pipeline_declaration& declaration) {
  const std::size_t frame = declaration.input.bytes();
  const auto declared = static_cast<std::size_t>(std::max<std::int64_t>(declaration.batch.max_frames, 0));
  const std::size_t frames = std::min(declared, declaration.batch.max_bytes / frame);
  if (frames == 0) {
    refuse({declaration.position, declaration.name, "", declared == 0 ? "batch.max_frames" : "batch.max_bytes"},
           "a batch does not hold one input frame of " + declaration.input.text());
  }
  return static_cast<std::int64_t>(frames);
}

std::size_t buffer_named(const plan& made, const std::string& name, const configuration_place& place) {
  const auto found = std::find_if(made.buffers.begin(), made.buffers.end(),
                                  [&](const plan_buffer& buffer) { return buffer.name == name; });
  if (found == made.buffers.end()) {
    refuse(place, "no stage '" + name + "' comes before it");
  }
  return static_cast<std::size_t>(found - made.buffers.begin());
}

std::unique_ptr<operation> compile_stage(const plan& made, const stage_declaration& stage,
                                         std::span<const std::size_t> inputs, device& target) {
  std::vector<tensor_spec> specs;
  for (const std::size_t buffer : inputs) {
    specs.push_back(made.buffers[buffer].spec);
  }
  configuration_place place{stage.position, made.declaration.name, stage.name, ""};
  try {
    return target.compile(stage.op, {stage.settings, specs, made.max_frames});
  } catch (const parameter_error& error) {
    place.field = error.field;
    refuse(place, error.what());
  } catch (const device_error& error) {
    throw device_error(place.text() + ": " + error.what());
  }
}

void add_stage(plan& made, const stage_declaration& stage, device& target) {
  plan_stage compiled;
  compiled.name = stage.name;
  compiled.op = stage.op;
  for (const std::string& source : stage.from) {
    compiled.inputs.push_back(buffer_named(made, source, {stage.position, made.declaration.name, stage.name, "from"}));
  }
  compiled.compiled = compile_stage(made, stage, compiled.inputs, target);
  compiled.output = made.buffers.size();
  made.buffers.push_back({stage.name, stage.output, 0, batch_bytes(stage.output, made.max_frames)});
  made.stages.push_back(std::move(compiled));
}

void add_outputs(plan& made) {
  for (const std::string& name : made.declaration.outputs) {
    const configuration_place place{made.declaration.position, made.declaration.name, "", "outputs"};
    const std::size_t buffer = buffer_named(made, name, place);
    if (buffer == 0) {
      refuse(place, "the input itself can't be an output");
    }
    const std::size_t offset = arena_aligned(made.pinned_output_bytes);
    made.outputs.push_back({name, made.declaration.stages[buffer - 1].op, buffer, offset});
    made.pinned_output_bytes = offset + made.buffers[buffer].bytes;
  }
}

/// The steps of a batch are: copy in (0), each stage in its order (1 and on), copy out (the last). A buffer lives from
/// the step that writes it to the last that reads it, a stage's scratch only while the stage runs.
void place_buffers(plan& made) {
  const std::size_t copy_out = made.stages.size() + 1;
  std::vector<arena_request> requests;
  for (std::size_t buffer = 0; buffer < made.buffers.size(); ++buffer) {
    requests.push_back({made.buffers[buffer].bytes, buffer, buffer});
  }
  for (std::size_t stage = 0; stage < made.stages.size(); ++stage) {
    for (const std::size_t buffer : made.stages[stage].inputs) {
      requests[buffer].last_step = std::max(requests[buffer].last_step, stage + 1);
    }
    requests.push_back({made.stages[stage].compiled->scratch_bytes(), stage + 1, stage + 1});
  }
  for (const plan_output& output : made.outputs) {
    requests[output.buffer].last_step = copy_out;
  }
  const arena_placement placement = place_in_arena(requests);
  for (std::size_t buffer = 0; buffer < made.buffers.size(); ++buffer) {
    made.buffers[buffer].offset = placement.offsets[buffer];
  }
  for (std::size_t stage = 0; stage < made.stages.size(); ++stage) {
    made.stages[stage].scratch_offset = placement.offsets[made.buffers.size() + stage];
  }
  made.arena_bytes = placement.bytes;
}

}  // namespace

plan compile_plan(const pipeline_declaration& declaration, std::uint32_t id, device& target) {
  plan made;
  made.id = id;
  made.declaration = declaration;
  made.max_frames = frames_of_batch(declaration);
  try {
    made.pinned_input_bytes = batch_bytes(declaration.input, made.max_frames);
    made.buffers.push_back({std::string(input_name), declaration.input, 0, made.pinned_input_bytes});
    for (const stage_declaration& stage : made.declaration.stages) {
      add_stage(made, stage, target);
    }
    add_outputs(made);
    place_buffers(made);
  } catch (const std::length_error& error) {
    refuse({declaration.position, declaration.name, "", "batch"}, error.what());
  }
  return made;
}

}  // namespace penstock

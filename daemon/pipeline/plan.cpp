#include "daemon/pipeline/plan.hpp"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/code/stage_code.hpp"
#include "daemon/pipeline/buffer_layout.hpp"
#include "daemon/pipeline/check.hpp"
#include "daemon/pipeline/declaration.hpp"
#include "daemon/pipeline/map_fusion.hpp"
#include "kernels/kernel.hpp"
#include "kernels/map.hpp"
#include "kernels/model.hpp"
#include "kernels/plugin.hpp"

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

/// Where a stage's frames are of different lengths, as behind a reframe, each of them is given room for the longest,
/// though a full batch's steps fill far less. Such a batch takes no more frames than those steps fill, unless they fit
/// max_bytes anyway.
std::int64_t frames_that_can_be_filled(const pipeline_declaration& declaration, std::int64_t frames) {
  std::int64_t filled = frames;
  for (const stage_declaration& stage : declaration.stages) {
    for (const operator_output& each : stage.outputs()) {
      if (!each.spec.variable || !stage.rate.ragged()) {
        continue;
      }
      const std::int64_t given = stage.rate.most(frames * declaration.input.shape.front());
      const std::int64_t longest = each.spec.shape.front();
      const auto fitting = static_cast<std::int64_t>(declaration.batch.max_bytes / each.spec.bytes());
      filled = std::min(filled, std::max({(given + longest - 1) / longest, fitting, std::int64_t{1}}));
    }
  }
  return filled;
}

std::int64_t frames_of_batch(const pipeline_declaration& declaration) {
  const std::size_t frame = declaration.frame_bytes();
  const auto declared = static_cast<std::size_t>(std::max<std::int64_t>(declaration.batch.max_frames, 0));
  const std::size_t frames = std::min(declared, declaration.batch.max_bytes / frame);
  if (frames == 0) {
    refuse(declaration.place(declared == 0 ? "batch.max_frames" : "batch.max_bytes"),
           "a batch does not hold one input frame of " + declaration.input.text());
  }
  return frames_that_can_be_filled(declaration, static_cast<std::int64_t>(frames));
}

std::size_t buffer_named(const plan& made, const std::string& name, const configuration_place& place) {
  const auto found = std::find_if(made.buffers.begin(), made.buffers.end(),
                                  [&](const plan_buffer& buffer) { return buffer.name == name; });
  if (found == made.buffers.end()) {
    refuse(place, "no stage '" + name + "' comes before it");
  }
  return static_cast<std::size_t>(found - made.buffers.begin());
}

/// Whether a parameter of a matrix product is that word.
bool says(const stage_declaration& stage, std::string_view key, std::string_view word) {
  const auto* const given = stage.settings.find<std::string>(key);
  return stage.op == "matmul" && given != nullptr && *given == word;
}

/// What blocks has a thread of its own, no device memory, and streams that wait for nothing.
void check_blocking(const pipeline_declaration& declaration) {
  for (const stage_declaration& stage : declaration.stages) {
    if (blocks(stage) && declaration.stages.size() != 1) {
      refuse(stage.place(declaration.name, "engine"),
             "a product by cuBLAS-Xt is the only stage of its pipeline, because it works on host memory and blocks; "
             "weights_in = \"host\" streams weights for a stage among others");
    }
  }
}

/// Stands for users' code where nothing is run.
class unrunnable final : public operation {
 public:
  explicit unrunnable(std::size_t state_bytes) : state_bytes_(state_bytes) {}
  [[nodiscard]] std::size_t state_bytes() const noexcept override { return state_bytes_; }
  fault run(void* /*stream*/, const operation_arguments& /*arguments*/) noexcept override { return {"checked only"}; }

 private:
  std::size_t state_bytes_;
};

/// Of a stage without users' code.
std::unique_ptr<operation> compile_built_in(const std::string& op, const operation_request& request, device& target,
                                            bool may_be_gpu) {
  if (!may_be_gpu || (op != "matmul" && op != "convolve")) {
    return target.compile(op, request);
  }
  try {
    return target.compile(op, request);
  } catch (const device_error&) {
    return std::make_unique<unrunnable>(0);  // there is no OpenBLAS or oneDNN
  }
}

std::unique_ptr<operation> compile_stage(const plan& made, const stage_declaration& stage, plan_stage& compiled,
                                         device& target, const compile_options& options) {
  std::vector<tensor_spec> specs;
  for (const std::size_t buffer : compiled.inputs) {
    specs.push_back(made.buffers[buffer].spec);
  }
  const auto place = [&](const std::string& field = "") { return stage.place(made.declaration.name, field); };
  try {
    const bool checks = options.checks_for.has_value();
    const std::string& architecture = checks ? *options.checks_for : target.facts().architecture;
    if (stage.op == "plugin" || stage.op == "model") {
      compiled.code_key = code_key(stage.op, stage.settings, specs, made.max_frames, architecture);
    }
    if (checks && stage.op == "plugin") {
      // It may need the device.
      return std::make_unique<unrunnable>(
          infer_with(plugin_operator(stage.settings, "file"), stage.settings, specs).state_bytes);
    }
    if (options.may_be_gpu && (blocks(stage) || says(stage, "weights_in", "host"))) {
      return std::make_unique<unrunnable>(0);  // the host has no such engine, or would read weights of any size
    }
    if (checks && stage.op == "model") {
      // The architecture of the machine's GPU is not known.
      if (!architecture.empty() || !options.may_be_gpu || !has_models_for_gpus(stage.settings)) {
        check_model(stage.settings, architecture);
      }
      if (architecture.empty() && !options.may_be_gpu) {
        check_host_libraries(stage.settings, specs);
      }
      return std::make_unique<unrunnable>(state_bytes_of_model(stage.settings));
    }
    std::string op = stage.op;
    parameters settings = operator_settings(stage);
    if (op == "map" && !architecture.empty()) {
      op = "kernel";
      settings = map_kernel(settings, specs);
    }
    if (op != "kernel") {
      return compile_built_in(op, {settings, specs, made.max_frames, !stage.tunable.empty()}, target,
                              options.may_be_gpu);
    }
    if (!architecture.empty()) {
      settings = with_machine_code(settings, specs, architecture, options.compiler);
      compiled.code = code_text(settings, architecture);
    }
    if (stage.op == "kernel") {
      compiled.code_key = code_key(stage.op, settings, specs, made.max_frames, architecture);
    }
    if (checks) {
      return std::make_unique<unrunnable>(parse_kernel(settings, specs).state_bytes);
    }
    return target.compile(op, {settings, specs, made.max_frames});
  } catch (const code_error& error) {
    refuse(place(stage.op == "map" ? "expr" : "file"), error.what());
  } catch (const compiler_error& error) {
    throw device_error(place().text() + ": " + error.what());
  } catch (const parameter_error& error) {
    refuse(place(error.field), error.what());
  } catch (const device_error& error) {
    throw device_error(place().text() + ": " + error.what());
  }
}

/// Where a session's state of a stage lies, and how its steps are counted.
void add_state(plan& made, const stage_declaration& stage, plan_stage& compiled) {
  const plan_buffer& input = made.buffers[compiled.inputs.front()];
  plan_state state;
  state.offset = made.state_bytes;
  state.traits = *stage.session;
  if (state.traits.whole_frames) {
    state.fixed_steps = 1;
  } else if (input.spec.variable) {
    state.rate = input.rate;
  } else {
    state.fixed_steps = input.spec.shape[state.traits.axis];
  }
  made.state_bytes += aligned_bytes(compiled.compiled->state_bytes());
  made.keepers.push_back(made.stages.size());
  compiled.state = std::move(state);
}

/// The least common multiple of two periods, or, where 64 bits do not hold it, one that no frame has either.
std::int64_t joint_period(std::int64_t one, std::int64_t other, std::int64_t longest) {
  const std::int64_t factor = other / std::gcd(one, other);
  return factor > std::numeric_limits<std::int64_t>::max() / one ? longest + 1 : one * factor;
}

void add_stage(plan& made, const stage_declaration& stage, device& target, const compile_options& options) {
  plan_stage compiled;
  compiled.name = stage.name;
  compiled.op = stage.op;
  compiled.fused = fused_stages(stage.settings);
  compiled.users_code = runs_users_code(stage);
  for (const std::string& source : stage.from) {
    compiled.inputs.push_back(buffer_named(made, source, stage.place(made.declaration.name, "from")));
  }
  compiled.compiled = compile_stage(made, stage, compiled, target, options);
  compiled.scratch_bytes = compiled.compiled->scratch_bytes();
  compiled.code = compiled.code.empty() ? compiled.compiled->note() : compiled.code;
  compiled.output = made.buffers.size();
  if (stage.session) {
    add_state(made, stage, compiled);
  }
  if (!stage.tunable.empty()) {
    made.tuned.push_back(made.stages.size());
    compiled.first_number = made.numbers;
    compiled.numbers = stage.numbers.size();
    made.numbers += stage.numbers.size();
  }
  const std::vector<operator_output> outputs = stage.outputs();
  compiled.outputs = outputs.size();
  for (const operator_output& each : outputs) {
    if (each.spec.variable) {
      // Where a session's first frames give fewer steps, no length makes several frames give the same.
      const std::int64_t longest = made.declaration.input.shape.front();
      made.period = stage.rate.begins_late() ? std::max(made.period, longest + 1)
                                             : joint_period(made.period, stage.rate.period(), longest);
    }
    made.buffers.push_back(
        {each.name, each.spec, stage.rate, 0, batch_bytes(each.spec, made.max_frames), made.stages.size() + 1});
  }
  made.stages.push_back(std::move(compiled));
}

void add_outputs(plan& made) {
  const std::vector<time_extent> extents = time_extents_of_stages(made.declaration);
  const std::vector<step_timing> timing = timing_of_stages(made.declaration);
  for (const std::string& name : made.declaration.outputs) {
    const configuration_place place = made.declaration.place("outputs");
    const std::size_t buffer = buffer_named(made, name, place);
    if (buffer < made.inputs) {
      refuse(place, "the input itself can't be an output");
    }
    const std::size_t offset = aligned_bytes(made.pinned_output_bytes);
    const std::size_t stage = made.buffers[buffer].writer - 1;
    const auto covered = static_cast<std::uint64_t>(std::max<std::int64_t>(extents[stage].steps, 1));
    made.outputs.push_back({.name = name,
                            .op = made.declaration.stages[stage].op,
                            .buffer = buffer,
                            .pinned_offset = offset,
                            .steps = covered,
                            .indices = static_cast<std::uint64_t>(extents[stage].indices),
                            .timing = timing[stage]});
    made.pinned_output_bytes = offset + made.buffers[buffer].bytes;
  }
}

/// Whether no stage makes something fixed of a variable frame as a whole.
bool works_step_by_step(const plan& made) {
  return std::all_of(made.stages.begin(), made.stages.end(), [&](const plan_stage& stage) {
    const auto outputs = std::span(made.buffers).subspan(stage.output, stage.outputs);
    return (stage.state && stage.state->traits.frame_results) ||
           std::all_of(outputs.begin(), outputs.end(), [](const plan_buffer& each) { return each.spec.variable; }) ||
           std::none_of(stage.inputs.begin(), stage.inputs.end(),
                        [&](std::size_t input) { return made.buffers[input].spec.variable; });
  });
}

/// Whether each buffer that goes over the link is gone over once: see plan::single_pass. What keeps state or is tuned
/// reads the frame table, which comes with the input, again and again.
bool goes_over_once(const plan& made) {
  if (made.keeps_state() || made.is_tuned() || made.inputs != 1) {
    return false;
  }
  const auto goes_out = [&](std::size_t buffer) {
    return std::any_of(made.outputs.begin(), made.outputs.end(),
                       [buffer](const plan_output& each) { return each.buffer == buffer; });
  };
  const auto sends = [&](const plan_stage& stage) {
    return std::any_of(made.outputs.begin(), made.outputs.end(), [&stage](const plan_output& each) {
      return each.buffer >= stage.output && each.buffer < stage.output + stage.outputs;
    });
  };
  std::ptrdiff_t reads = 0;
  for (const plan_stage& stage : made.stages) {
    const std::ptrdiff_t of_input = std::count(stage.inputs.begin(), stage.inputs.end(), std::size_t{0});
    if (((of_input != 0 || sends(stage)) && !stage.compiled->single_pass()) ||
        std::any_of(stage.inputs.begin(), stage.inputs.end(), goes_out)) {
      return false;
    }
    reads += of_input;
  }
  return reads <= 1;
}

/// See plan::rewrites_input. Once the order is made.
bool may_rewrite_input(const plan& made) {
  if (made.keeps_state() || made.inputs != 1 || made.outputs.size() != 1) {
    return false;
  }
  const plan_buffer& output = made.buffers[made.outputs.front().buffer];
  if (output.spec.bytes() != made.input().bytes() || output.spec.variable != made.input().variable ||
      output.rate.ragged()) {
    return false;
  }
  for (std::size_t node = 1; node <= made.stages.size(); ++node) {
    const plan_stage& stage = made.stages[node - 1];
    const auto reads = std::count(stage.inputs.begin(), stage.inputs.end(), std::size_t{0});
    const operator_definition* const op = find_operator(stage.op);
    // An operator may overwrite its first input with its first output.
    const bool bears_it = reads == 1 && stage.inputs.front() == 0 && made.outputs.front().buffer == stage.output &&
                          (stage.compiled->overwrites() || (op != nullptr && op->overwrites));
    if (reads != 0 && !(node == output.writer ? bears_it : made.order.before(node, output.writer))) {
      return false;
    }
  }
  return true;
}

/// Node 0 is the copy in, then come the stages, then the copies out.
void make_order(plan& made, std::uint32_t max_lanes) {
  std::vector<schedule_node> nodes{{.reads = {}, .follows = false}};
  for (const plan_stage& stage : made.stages) {
    schedule_node& node = nodes.emplace_back(schedule_node{.reads = {}, .follows = false});
    for (const std::size_t buffer : stage.inputs) {
      node.reads.push_back(made.buffers[buffer].writer);
    }
  }
  for (const plan_output& output : made.outputs) {
    nodes.push_back({.reads = {made.buffers[output.buffer].writer}, .follows = true});
  }
  made.order = make_schedule(nodes, max_lanes);
}

/// A piece of device memory to place, and the nodes at which its contents matter.
struct placed_buffer {
  std::size_t bytes = 0;
  std::size_t writer = 0;
  std::vector<std::size_t> users;  ///< the writer among them
};

/// Buffers, then each stage's scratch, then the frame table.
std::vector<placed_buffer> buffers_to_place(const plan& made) {
  std::vector<placed_buffer> all;
  for (std::size_t buffer = 0; buffer < made.buffers.size(); ++buffer) {
    all.push_back({made.buffers[buffer].bytes, made.buffers[buffer].writer, {made.buffers[buffer].writer}});
  }
  for (std::size_t stage = 0; stage < made.stages.size(); ++stage) {
    for (const std::size_t buffer : made.stages[stage].inputs) {
      all[buffer].users.push_back(stage + 1);
    }
    all.push_back({made.stages[stage].scratch_bytes, stage + 1, {stage + 1}});
  }
  for (std::size_t output = 0; output < made.outputs.size(); ++output) {
    all[made.outputs[output].buffer].users.push_back(made.stages.size() + 1 + output);
  }
  placed_buffer& table = all.emplace_back(placed_buffer{made.frame_table_bytes(made.max_frames), 0, {0}});
  for (const std::size_t stage : made.keepers) {
    table.users.push_back(stage + 1);
  }
  for (const std::size_t stage : made.tuned) {
    table.users.push_back(stage + 1);
  }
  return all;
}

/// Two buffers may share memory when whatever is done with one is always over before the other is first written.
buffer_conflicts conflicts_of(const std::vector<placed_buffer>& all, const schedule& order) {
  const auto over_before = [&](const placed_buffer& one, const placed_buffer& other) {
    return std::all_of(one.users.begin(), one.users.end(),
                       [&](std::size_t user) { return order.before(user, other.writer); });
  };
  buffer_conflicts conflicts(all.size());
  for (std::size_t left = 0; left < all.size(); ++left) {
    for (std::size_t right = 0; right < left; ++right) {
      if (!over_before(all[left], all[right]) && !over_before(all[right], all[left])) {
        conflicts.add(left, right);
      }
    }
  }
  return conflicts;
}

void lay_out_buffers(plan& made) {
  const std::vector<placed_buffer> all = buffers_to_place(made);
  std::vector<std::size_t> bytes;
  for (const placed_buffer& each : all) {
    bytes.push_back(each.bytes);
  }
  const buffer_placement placement = place_buffers(bytes, conflicts_of(all, made.order));
  for (std::size_t buffer = 0; buffer < made.buffers.size(); ++buffer) {
    made.buffers[buffer].offset = placement.offsets[buffer];
  }
  for (std::size_t stage = 0; stage < made.stages.size(); ++stage) {
    made.stages[stage].scratch_offset = placement.offsets[made.buffers.size() + stage];
  }
  made.frame_table_offset = placement.offsets.back();
  made.device_bytes = placement.bytes;
  if (made.keeps_state() || made.is_tuned()) {
    made.frame_table_pinned = aligned_bytes(made.pinned_input_bytes);
    made.pinned_input_bytes = made.frame_table_pinned + all.back().bytes;
  }
}

}  // namespace

bool runs_users_code(const stage_declaration& stage) {
  return stage.op == "kernel" || stage.op == "model" || stage.op == "plugin";
}

bool blocks(const stage_declaration& stage) {
  return says(stage, "engine", "xt");
}

stream_class streams_of(const pipeline_declaration& pipeline) {
  return {pipeline.priority, std::any_of(pipeline.stages.begin(), pipeline.stages.end(), blocks)};
}

plan compile_plan(const pipeline_declaration& declaration, std::uint32_t id, device& target, std::uint32_t max_lanes,
                  const compile_options& options) {
  plan made;
  made.id = id;
  made.place = id;
  made.declaration = fuse_maps(declaration);
  check_blocking(declaration);
  made.max_frames = frames_of_batch(declaration);
  try {
    made.inputs_pinned.clear();
    for (const operator_output& each : declaration.all_inputs()) {
      made.inputs_pinned.push_back(aligned_bytes(made.pinned_input_bytes));
      made.buffers.push_back({each.name, each.spec, {}, 0, batch_bytes(each.spec, made.max_frames)});
      made.pinned_input_bytes = made.inputs_pinned.back() + made.buffers.back().bytes;
    }
    made.inputs = made.buffers.size();
    for (const stage_declaration& stage : made.declaration.stages) {
      add_stage(made, stage, target, options);
    }
    add_outputs(made);
    made.single_pass = goes_over_once(made);
    made.blocks = streams_of(made.declaration).blocks;
    made.mixes_lengths = made.keeps_state() && declaration.input.variable && works_step_by_step(made);
    make_order(made, max_lanes);
    made.rewrites_input = may_rewrite_input(made);
    if (!made.blocks) {
      lay_out_buffers(made);
    }
  } catch (const std::length_error& error) {
    refuse(declaration.place("batch"), error.what());
  }
  return made;
}

}  // namespace penstock

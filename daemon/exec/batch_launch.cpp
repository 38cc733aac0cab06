#include "daemon/exec/batch_launch.hpp"

#include <algorithm>

#include "daemon/request/wire_tensor.hpp"
#include "daemon/shm/segment.hpp"
#include "proto/message.hpp"

namespace penstock {
namespace {

// Offset of an output in the memory that a shared request names for its outputs.
std::size_t offset_of_output(const request& request, std::size_t output) noexcept {
  std::size_t offset = 0;
  for (std::size_t before = 0; before < output; ++before) {
    const result_extent extent =
        extent_of(request.pipeline->output_buffer(before), request.steps_before, request.leading, request.frames);
    offset += wire::room_for(extent.bytes);
  }
  return offset;
}

std::size_t input_bytes(const batch& batch) noexcept {
  return static_cast<std::size_t>(batch.frames) * batch.pipeline->frame_bytes(batch.leading);
}

std::size_t output_bytes(const batch& batch) noexcept {
  std::size_t sum = 0;
  for (const plan_output& each : batch.pipeline->outputs) {
    sum += static_cast<std::size_t>(batch.frames) * batch.pipeline->buffers[each.buffer].pitch(batch.leading);
  }
  return sum;
}

}  // namespace

batch_launch::batch_launch(slot& filled, const launch_resources& resources) noexcept
    : slot_(filled),
      plan_(*filled.work.pipeline),
      resources_(resources),
      next_operand_(filled.operands.data()),
      next_result_(filled.results.data()),
      input_(input_memory(filled.work, resources.direct_bytes)),
      outputs_(output_memory(filled.work, resources.direct_bytes)) {}

// A product goes over a client's shared memory as it stands, unless it is the device's: what the client writes
// meanwhile spoils its own result alone.
batch_launch::operand_memory batch_launch::blocking_memory(const batch& work) noexcept {
  const bool is_direct = work.payload == payload_mode::shared && work.requests.size() == 1 &&
                         work.requests.front()->shared.arena->memory() != arena_memory::device;
  return is_direct ? operand_memory::arena : operand_memory::pinned;
}

// A client may write to its shared memory at any time, so a batch with such a request is always copied: its operators
// must not see that.
batch_launch::operand_memory batch_launch::input_memory(const batch& work, std::size_t direct_bytes) noexcept {
  if (work.pipeline->blocks) {
    return blocking_memory(work);
  }
  switch (work.payload) {
    case payload_mode::in_place:
    case payload_mode::rewritten:
      return operand_memory::message;
    case payload_mode::copied:
      return input_bytes(work) <= direct_bytes ? operand_memory::pinned : operand_memory::device;
    case payload_mode::shared:
      break;
  }
  return operand_memory::device;
}

batch_launch::operand_memory batch_launch::output_memory(const batch& work, std::size_t direct_bytes) noexcept {
  if (work.pipeline->blocks) {
    return blocking_memory(work);
  }
  switch (work.payload) {
    case payload_mode::rewritten:
      return operand_memory::message;
    case payload_mode::in_place:
    case payload_mode::copied:
      return output_bytes(work) <= direct_bytes ? operand_memory::pinned : operand_memory::device;
    case payload_mode::shared:
      break;
  }
  return operand_memory::device;
}

launch_fault batch_launch::enqueue() noexcept {
  for (std::size_t index = 0; index < plan_.order.steps.size(); ++index) {
    const schedule_step& step = plan_.order.steps[index];
    stream& lane = *resources_.lanes[step.lane];
    for (const std::uint32_t joint : step.waits) {
      if (fault failed = lane.wait(*slot_.joints[joint])) {
        return {failed};
      }
    }
    if (launch_fault failed = enqueue_step(lane, index); failed.error) {
      return failed;
    }
    if (step.event >= 0) {
      if (fault failed = lane.record(*slot_.joints[static_cast<std::size_t>(step.event)])) {
        return {failed};
      }
    }
  }
  for (const std::uint32_t joint : plan_.order.joins) {
    if (fault failed = resources_.lanes.front()->wait(*slot_.joints[joint])) {
      return {failed};
    }
  }
  return {};
}

// Step 0 is the copy in; the stages follow, then a copy out for each output.
launch_fault batch_launch::enqueue_step(stream& stream, std::size_t step) noexcept {
  const std::size_t stages = plan_.stages.size();
  if (slot_.clock != nullptr) {
    if (fault failed = stream.record(*slot_.clock->begins[step])) {
      return {failed};
    }
  }
  launch_fault failed;
  if (step == 0) {
    failed.error = copy_in(stream);
  } else if (step <= stages) {
    failed = {run_stage(stream, step - 1), plan_.stages[step - 1].name.c_str()};
  } else {
    failed.error = copy_out(stream, step - 1 - stages);
  }
  if (!failed.error && slot_.clock != nullptr) {
    failed = {stream.record(*slot_.clock->ends[step])};
  }
  return failed;
}

bool batch_launch::copies(operand_memory memory) const noexcept {
  return memory == operand_memory::device ||
         (memory == operand_memory::pinned && slot_.work.payload == payload_mode::shared);
}

fault batch_launch::copy_in(stream& stream) noexcept {
  if (!copies(input_)) {
    return {};
  }
  resources_.pieces.clear();
  for (std::size_t input = 0; input < plan_.inputs; ++input) {
    if (slot_.work.payload != payload_mode::shared) {
      add_frames_in(input, 0, slot_.work.frames);
    } else {
      add_shared_in(input);
    }
  }
  if (plan_.keeps_state() || plan_.is_tuned()) {
    add_piece(slot_.workspace.get() + plan_.frame_table_offset, slot_.pinned_input.get() + plan_.frame_table_pinned,
              plan_.frame_table_bytes(slot_.work.frames), resources_.copied.in);
  }
  return stream.copy_pieces_in(resources_.pieces);
}

void batch_launch::add_piece(void* target, const void* source, std::size_t bytes, std::uint64_t& counted) noexcept {
  resources_.pieces.add(target, source, bytes);
  counted += bytes;
}

// To or from the memory that its client shares.
void batch_launch::add_shared_piece(const request& shared, void* target, const void* source, std::size_t bytes,
                                    std::uint64_t& counted) noexcept {
  const bool within = shared.shared.arena->memory() == arena_memory::device;
  resources_.pieces.within_device = resources_.pieces.within_device || within;
  add_piece(target, source, bytes, within ? resources_.copied.within_device : counted);
}

// Frames from the slot's pinned input, unless they are read there; none if first equals end.
void batch_launch::add_frames_in(std::size_t input, std::int64_t first, std::int64_t end) noexcept {
  if (input_ == operand_memory::pinned) {
    return;
  }
  const std::size_t pitch = plan_.buffers[input].pitch(slot_.work.leading);
  const std::size_t offset = static_cast<std::size_t>(first) * pitch;
  add_piece(slot_.workspace.get() + plan_.buffers[input].offset + offset,
            slot_.pinned_input.get() + plan_.inputs_pinned[input] + offset,
            static_cast<std::size_t>(end - first) * pitch, resources_.copied.in);
}

// One piece for each shared request, and one for the frames between two of them.
void batch_launch::add_shared_in(std::size_t input) noexcept {
  const std::size_t pitch = plan_.buffers[input].pitch(slot_.work.leading);
  std::byte* const target = input_ == operand_memory::pinned ? slot_.pinned_input.get() + plan_.inputs_pinned[input]
                                                             : slot_.workspace.get() + plan_.buffers[input].offset;
  std::int64_t first = 0;
  for (const request* const each : slot_.work.requests) {
    if (each->payload != payload_mode::shared) {
      continue;
    }
    add_frames_in(input, first, each->first_frame);
    add_shared_piece(*each, target + static_cast<std::size_t>(each->first_frame) * pitch,
                     each->shared.input + offset_of_input(*each, input), bytes_of_input(*each, input),
                     resources_.copied.in);
    first = each->first_frame + each->frames;
  }
  add_frames_in(input, first, slot_.work.frames);
}

fault batch_launch::copy_out(stream& stream, std::size_t output) noexcept {
  if (!copies(outputs_)) {
    return {};
  }
  resources_.pieces.clear();
  if (slot_.work.payload != payload_mode::shared) {
    add_frames_out(plan_.outputs[output], 0, slot_.work.frames);
  } else {
    add_shared_out(output);
  }
  return stream.copy_pieces_out(resources_.pieces);
}

void batch_launch::add_frames_out(const plan_output& output, std::int64_t first, std::int64_t end) noexcept {
  if (outputs_ == operand_memory::pinned) {
    return;
  }
  const plan_buffer& buffer = plan_.buffers[output.buffer];
  const std::size_t pitch = buffer.pitch(slot_.work.leading);
  const std::size_t offset = static_cast<std::size_t>(first) * pitch;
  add_piece(slot_.pinned_output.get() + output.pinned_offset + offset, slot_.workspace.get() + buffer.offset + offset,
            static_cast<std::size_t>(end - first) * pitch, resources_.copied.out);
}

void batch_launch::add_shared_out(std::size_t output) noexcept {
  const plan_buffer& buffer = plan_.output_buffer(output);
  const std::size_t pitch = buffer.pitch(slot_.work.leading);
  std::int64_t first = 0;
  for (const request* const each : slot_.work.requests) {
    if (each->payload != payload_mode::shared) {
      continue;
    }
    add_frames_out(plan_.outputs[output], first, each->first_frame);
    add_shared_piece(*each, each->shared.output + offset_of_output(*each, output),
                     result(plan_.outputs[output].buffer) + static_cast<std::size_t>(each->first_frame) * pitch,
                     extent_of(buffer, each->steps_before, each->leading, each->frames).bytes, resources_.copied.out);
    first = each->first_frame + each->frames;
  }
  add_frames_out(plan_.outputs[output], first, slot_.work.frames);
}

// Where a stage reads that buffer.
const std::byte* batch_launch::operand(std::size_t buffer) const noexcept {
  if (buffer >= plan_.inputs) {
    return result(buffer);
  }
  switch (input_) {
    case operand_memory::message:  // of one input
      return slot_.work.input;
    case operand_memory::pinned:
      return slot_.pinned_input.get() + plan_.inputs_pinned[buffer];
    case operand_memory::arena:
      return slot_.work.requests.front()->shared.input;
    case operand_memory::device:
      break;
  }
  return result(buffer);
}

// Where a stage writes that buffer, or the input is copied to.
std::byte* batch_launch::result(std::size_t buffer) const noexcept {
  const auto output = std::find_if(plan_.outputs.begin(), plan_.outputs.end(),
                                   [buffer](const plan_output& each) { return each.buffer == buffer; });
  if (output == plan_.outputs.end() || outputs_ == operand_memory::device) {
    return slot_.workspace.get() + plan_.buffers[buffer].offset;
  }
  switch (outputs_) {
    case operand_memory::message:
      return slot_.work.input;
    case operand_memory::arena: {
      const request& only = *slot_.work.requests.front();
      return only.shared.output + offset_of_output(only, static_cast<std::size_t>(output - plan_.outputs.begin()));
    }
    case operand_memory::pinned:
    case operand_memory::device:
      break;
  }
  return slot_.pinned_output.get() + output->pinned_offset;
}

// Where stages read what each frame has of its own.
const std::byte* batch_launch::frame_table() const noexcept {
  return input_ != operand_memory::device ? slot_.pinned_input.get() + plan_.frame_table_pinned
                                          : slot_.workspace.get() + plan_.frame_table_offset;
}

fault batch_launch::run_stage(stream& stream, std::size_t index) noexcept {
  const plan_stage& stage = plan_.stages[index];
  operation_arguments& arguments = slot_.launches[index];
  arguments = {.inputs = {next_operand_, stage.inputs.size()},
               .output = result(stage.output),
               .scratch = slot_.workspace.get() + stage.scratch_offset,
               .extent = {slot_.work.frames, slot_.work.leading},
               .session = {},
               .outputs = {next_result_, stage.outputs}};
  for (const std::size_t input : stage.inputs) {
    const plan_buffer& buffer = plan_.buffers[input];
    *next_operand_++ = operand(input);
    if (buffer.spec.variable) {
      arguments.extent.leading = buffer.rate.most(slot_.work.leading);
    }
  }
  for (std::size_t each = 0; each < stage.outputs; ++each) {
    *next_result_++ = result(stage.output + each);
  }
  if (stage.numbers != 0) {
    const auto frames = static_cast<std::size_t>(slot_.work.frames);
    const std::byte* const first = frame_table() + plan_.numbers_offset(slot_.work.frames);
    arguments.numbers = reinterpret_cast<const double*>(first) + frames * stage.first_number;
  }
  return stage.state ? run_stateful(stream, index, arguments) : stream.launch(*stage.compiled, arguments);
}

// On each lane, the first stage that keeps state waits for the batches that have its sessions' states, and the last one
// records that it is done with them. All batches of a plan have the same stages on the same lane.
fault batch_launch::run_stateful(stream& stream, std::size_t index, operation_arguments& arguments) noexcept {
  const plan_stage& stage = plan_.stages[index];
  const auto found = std::find(plan_.keepers.begin(), plan_.keepers.end(), index);
  const auto keeper = static_cast<std::size_t>(found - plan_.keepers.begin());
  const auto frames = static_cast<std::size_t>(slot_.work.frames);
  arguments.session.frames = reinterpret_cast<const session_frame*>(frame_table()) + keeper * frames;
  const std::byte* const written = slot_.pinned_input.get() + plan_.frame_table_pinned;
  arguments.host_frames = reinterpret_cast<const session_frame*>(written) + keeper * frames;
  arguments.session.pool = resources_.states + stage.state->offset;
  arguments.session.stride = plan_.state_bytes;
  const std::uint32_t lane = lane_of(index);
  const auto shares_lane = [&](std::size_t other) { return lane_of(other) == lane; };
  if (std::none_of(plan_.keepers.begin(), found, shares_lane)) {
    for (const slot* before : slot_.predecessors) {
      // One stream runs in order anyway.
      if (before->streams[lane] == slot_.streams[lane]) {
        continue;
      }
      if (fault failed = stream.wait(*before->carried[lane])) {
        return failed;
      }
    }
  }
  fault failed = stream.launch(*stage.compiled, arguments);
  if (!failed && std::none_of(found + 1, plan_.keepers.end(), shares_lane)) {
    failed = stream.record(*slot_.carried[lane]);
  }
  return failed;
}

}  // namespace penstock

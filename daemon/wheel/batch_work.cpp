#include "daemon/wheel/batch_work.hpp"

#include <algorithm>

#include "daemon/request/result_extent.hpp"
#include "proto/message.hpp"

namespace penstock {
namespace {

// From where the outputs of a request begin in shared memory.
std::size_t offset_of_output(const request& of, std::size_t output) noexcept {
  std::size_t offset = 0;
  for (std::size_t before = 0; before < output; ++before) {
    const result_extent extent = extent_of(of.pipeline->output_buffer(before), of.steps_before, of.leading, of.frames);
    offset += wire::room_for(extent.bytes);
  }
  return offset;
}

std::size_t input_bytes(const batch& of) noexcept {
  return static_cast<std::size_t>(of.frames) * of.pipeline->input().bytes(of.leading);
}

std::size_t output_bytes(const batch& of) noexcept {
  std::size_t sum = 0;
  for (const plan_output& each : of.pipeline->outputs) {
    sum += static_cast<std::size_t>(of.frames) * of.pipeline->buffers[each.buffer].pitch(of.leading);
  }
  return sum;
}

}  // namespace

// Frames in shared memory are always copied: what their client writes meanwhile must not change under an operation.
batch_work::batch_work(slot& of, const batch_means& with) noexcept
    : slot_(of),
      plan_(*of.work.pipeline),
      with_(with),
      operand_(of.operands.data()),
      reads_pinned_(of.work.input != nullptr || (of.work.shared == 0 && input_bytes(of.work) <= with.direct_bytes)),
      writes_pinned_(of.work.rewrites || (of.work.shared == 0 && output_bytes(of.work) <= with.direct_bytes)) {}

launch_fault batch_work::enqueue() noexcept {
  for (std::size_t node = 0; node < plan_.order.steps.size(); ++node) {
    const schedule_step& step = plan_.order.steps[node];
    stream& on = *with_.lanes[step.lane];
    for (const std::uint32_t joint : step.waits) {
      if (fault failed = on.wait(*slot_.joints[joint])) {
        return {failed};
      }
    }
    if (launch_fault failed = enqueue_node(on, node); failed.what) {
      return failed;
    }
    if (step.event >= 0) {
      if (fault failed = on.record(*slot_.joints[static_cast<std::size_t>(step.event)])) {
        return {failed};
      }
    }
  }
  for (const std::uint32_t joint : plan_.order.joins) {
    if (fault failed = with_.lanes.front()->wait(*slot_.joints[joint])) {
      return {failed};
    }
  }
  return {};
}

launch_fault batch_work::enqueue_node(stream& on, std::size_t node) noexcept {
  const std::size_t stages = plan_.stages.size();
  if (slot_.clock != nullptr) {
    if (fault failed = on.record(*slot_.clock->begins[node])) {
      return {failed};
    }
  }
  launch_fault failed;
  if (node == 0) {
    failed.what = copy_in(on);
  } else if (node <= stages) {
    failed = {run_stage(on, node - 1), plan_.stages[node - 1].name.c_str()};
  } else {
    failed.what = copy_out(on, node - 1 - stages);
  }
  if (!failed.what && slot_.clock != nullptr) {
    failed = {on.record(*slot_.clock->ends[node])};
  }
  return failed;
}

fault batch_work::copy_in(stream& on) noexcept {
  if (reads_pinned_) {
    return {};
  }
  with_.pieces.clear();
  if (slot_.work.shared == 0) {
    add_frames_in(0, slot_.work.frames);
  } else {
    add_shared_in();
  }
  if (plan_.keeps_state()) {
    with_.pieces.add(slot_.arena.get() + plan_.frame_table_offset, slot_.pinned_input.get() + plan_.frame_table_pinned,
                     plan_.keepers.size() * static_cast<std::size_t>(slot_.work.frames) * sizeof(session_frame));
  }
  return on.copy_pieces_in(with_.pieces);
}

// Those frames from the slot's pinned input, where there are any.
void batch_work::add_frames_in(std::int64_t first, std::int64_t end) noexcept {
  const std::size_t pitch = plan_.input().bytes(slot_.work.leading);
  const std::size_t from = static_cast<std::size_t>(first) * pitch;
  with_.pieces.add(slot_.arena.get() + from, slot_.pinned_input.get() + from,
                   static_cast<std::size_t>(end - first) * pitch);
}

// Each request in shared memory by itself, and what stands between two of them together.
void batch_work::add_shared_in() noexcept {
  const std::size_t pitch = plan_.input().bytes(slot_.work.leading);
  std::int64_t first = 0;
  for (const request* const each : slot_.work.requests) {
    if (each->shared.arena == nullptr) {
      continue;
    }
    add_frames_in(first, each->first_frame);
    with_.pieces.add(slot_.arena.get() + static_cast<std::size_t>(each->first_frame) * pitch, each->shared.input,
                     each->bytes);
    first = each->first_frame + each->frames;
  }
  add_frames_in(first, slot_.work.frames);
}

fault batch_work::copy_out(stream& on, std::size_t output) noexcept {
  if (writes_pinned_) {
    return {};
  }
  with_.pieces.clear();
  if (slot_.work.shared == 0) {
    add_frames_out(plan_.outputs[output], 0, slot_.work.frames);
  } else {
    add_shared_out(output);
  }
  return on.copy_pieces_out(with_.pieces);
}

void batch_work::add_frames_out(const plan_output& output, std::int64_t first, std::int64_t end) noexcept {
  const plan_buffer& buffer = plan_.buffers[output.buffer];
  const std::size_t pitch = buffer.pitch(slot_.work.leading);
  const std::size_t from = static_cast<std::size_t>(first) * pitch;
  with_.pieces.add(slot_.pinned_output.get() + output.pinned_offset + from, slot_.arena.get() + buffer.offset + from,
                   static_cast<std::size_t>(end - first) * pitch);
}

void batch_work::add_shared_out(std::size_t output) noexcept {
  const plan_buffer& buffer = plan_.output_buffer(output);
  const std::size_t pitch = buffer.pitch(slot_.work.leading);
  std::int64_t first = 0;
  for (const request* const each : slot_.work.requests) {
    if (each->shared.arena == nullptr) {
      continue;
    }
    add_frames_out(plan_.outputs[output], first, each->first_frame);
    with_.pieces.add(each->shared.output + offset_of_output(*each, output),
                     slot_.arena.get() + buffer.offset + static_cast<std::size_t>(each->first_frame) * pitch,
                     extent_of(buffer, each->steps_before, each->leading, each->frames).bytes);
    first = each->first_frame + each->frames;
  }
  add_frames_out(plan_.outputs[output], first, slot_.work.frames);
}

// What a stage reads.
const std::byte* batch_work::source_of(std::size_t buffer) const noexcept {
  if (buffer == 0 && slot_.work.input != nullptr) {
    return slot_.work.input;
  }
  return buffer == 0 && reads_pinned_ ? slot_.pinned_input.get() : place_of(buffer);
}

// Where a stage writes, or the input is copied to.
std::byte* batch_work::place_of(std::size_t buffer) const noexcept {
  const auto output = std::find_if(plan_.outputs.begin(), plan_.outputs.end(),
                                   [buffer](const plan_output& each) { return each.buffer == buffer; });
  if (output == plan_.outputs.end() || !writes_pinned_) {
    return slot_.arena.get() + plan_.buffers[buffer].offset;
  }
  return slot_.work.rewrites ? slot_.work.input : slot_.pinned_output.get() + output->pinned_offset;
}

fault batch_work::run_stage(stream& on, std::size_t index) noexcept {
  const plan_stage& stage = plan_.stages[index];
  operation_arguments& arguments = slot_.launches[index];
  arguments = {.inputs = {operand_, stage.inputs.size()},
               .output = place_of(stage.output),
               .scratch = slot_.arena.get() + stage.scratch_offset,
               .extent = {slot_.work.frames, slot_.work.leading},
               .session = {}};
  for (const std::size_t input : stage.inputs) {
    const plan_buffer& from = plan_.buffers[input];
    *operand_++ = source_of(input);
    if (from.spec.variable) {
      arguments.extent.leading = from.rate.most(slot_.work.leading);
    }
  }
  return stage.state ? run_keeper(on, index, arguments) : on.launch(*stage.compiled, arguments);
}

// On each lane the first stage that keeps state waits for the batches that hold its sessions' states, the last one says
// that it is done with them. Batches of one plan have the same stages on the same lane.
fault batch_work::run_keeper(stream& on, std::size_t index, operation_arguments& arguments) noexcept {
  const plan_stage& stage = plan_.stages[index];
  const auto at = std::find(plan_.keepers.begin(), plan_.keepers.end(), index);
  const auto keeper = static_cast<std::size_t>(at - plan_.keepers.begin());
  const auto frames = static_cast<std::size_t>(slot_.work.frames);
  const std::byte* const table = reads_pinned_ ? slot_.pinned_input.get() + plan_.frame_table_pinned
                                               : slot_.arena.get() + plan_.frame_table_offset;
  arguments.session.frames = reinterpret_cast<const session_frame*>(table) + keeper * frames;
  arguments.session.pool = with_.states + stage.state->offset;
  arguments.session.stride = plan_.state_bytes;
  const std::uint32_t lane = lane_of(index);
  const auto shares_lane = [&](std::size_t other) { return lane_of(other) == lane; };
  if (std::none_of(plan_.keepers.begin(), at, shares_lane)) {
    for (const slot* before : slot_.predecessors) {
      // On the same stream the order is there already.
      if (before->streams[lane] == slot_.streams[lane]) {
        continue;
      }
      if (fault failed = on.wait(*before->carried[lane])) {
        return failed;
      }
    }
  }
  fault failed = on.launch(*stage.compiled, arguments);
  if (!failed && std::none_of(at + 1, plan_.keepers.end(), shares_lane)) {
    failed = on.record(*slot_.carried[lane]);
  }
  return failed;
}

}  // namespace penstock

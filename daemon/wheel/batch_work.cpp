#include "daemon/wheel/batch_work.hpp"

#include <algorithm>

namespace penstock {

launch_fault batch_work::enqueue() noexcept {
  for (std::size_t node = 0; node < plan_.order.steps.size(); ++node) {
    const schedule_step& step = plan_.order.steps[node];
    stream& on = *lanes_[step.lane];
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
    if (fault failed = lanes_.front()->wait(*slot_.joints[joint])) {
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
    failed.what = copy_out(on, plan_.outputs[node - 1 - stages]);
  }
  if (!failed.what && slot_.clock != nullptr) {
    failed = {on.record(*slot_.clock->ends[node])};
  }
  return failed;
}

fault batch_work::copy_in(stream& on) noexcept {
  const auto frames = static_cast<std::size_t>(slot_.work.frames);
  std::byte* const arena = slot_.arena.get();
  const std::byte* const pinned = slot_.pinned_input.get();
  if (fault failed = on.copy_in(arena, pinned, frames * plan_.input().bytes(slot_.work.leading))) {
    return failed;
  }
  if (!plan_.keeps_state()) {
    return {};
  }
  return on.copy_in(arena + plan_.frame_table_offset, pinned + plan_.frame_table_pinned,
                    plan_.keepers.size() * frames * sizeof(session_frame));
}

fault batch_work::copy_out(stream& on, const plan_output& output) noexcept {
  const plan_buffer& from = plan_.buffers[output.buffer];
  return on.copy_out(slot_.pinned_output.get() + output.pinned_offset, slot_.arena.get() + from.offset,
                     static_cast<std::size_t>(slot_.work.frames) * from.pitch(slot_.work.leading));
}

fault batch_work::run_stage(stream& on, std::size_t index) noexcept {
  const plan_stage& stage = plan_.stages[index];
  std::byte* const arena = slot_.arena.get();
  operation_arguments& arguments = slot_.launches[index];
  arguments = {.inputs = {operand_, stage.inputs.size()},
               .output = arena + plan_.buffers[stage.output].offset,
               .scratch = arena + stage.scratch_offset,
               .extent = {slot_.work.frames, slot_.work.leading},
               .session = {}};
  for (const std::size_t input : stage.inputs) {
    const plan_buffer& from = plan_.buffers[input];
    *operand_++ = arena + from.offset;
    if (from.spec.variable) {
      arguments.extent.leading = from.rate.most(slot_.work.leading);
    }
  }
  return stage.state ? run_keeper(on, index, arguments) : on.launch(*stage.compiled, arguments);
}

// The first stage that keeps state waits for the batches that hold its sessions' states, the last one says that it is
// done with them.
fault batch_work::run_keeper(stream& on, std::size_t index, operation_arguments& arguments) noexcept {
  const plan_stage& stage = plan_.stages[index];
  const auto keeper =
      static_cast<std::size_t>(std::find(plan_.keepers.begin(), plan_.keepers.end(), index) - plan_.keepers.begin());
  const auto frames = static_cast<std::size_t>(slot_.work.frames);
  arguments.session.frames =
      reinterpret_cast<const session_frame*>(slot_.arena.get() + plan_.frame_table_offset) + keeper * frames;
  arguments.session.pool = states_ + stage.state->offset;
  arguments.session.stride = plan_.state_bytes;
  if (index == plan_.keepers.front()) {
    for (const slot* before : slot_.predecessors) {
      // On the same stream the order is there already.
      if (before->streams.front() == slot_.streams.front()) {
        continue;
      }
      if (fault failed = on.wait(*before->carried)) {
        return failed;
      }
    }
  }
  fault failed = on.launch(*stage.compiled, arguments);
  if (!failed && index == plan_.keepers.back()) {
    failed = on.record(*slot_.carried);
  }
  return failed;
}

}  // namespace penstock

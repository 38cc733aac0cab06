#include "daemon/wheel/wheel.hpp"

#include <algorithm>
#include <cassert>
#include <string>
#include <utility>

namespace penstock {
namespace {

// All that runs on the device's thread: store, push, wake, return.
void batch_done(void* context, fault status) noexcept {
  auto& node = *static_cast<completion_node*>(context);
  node.status = status;
  node.queue->push(node);
}

}  // namespace

wheel::wheel(device& on, int streams, completion_mode mode) : mode_(mode), spokes_(static_cast<std::size_t>(streams)) {
  for (spoke& each : spokes_) {
    each.queue = on.open_stream(stream_priority::normal);
  }
}

wheel_room wheel::room() const noexcept {
  if (in_flight_ >= spokes_.size() * depth) {
    return wheel_room::none;
  }
  // The rotation fills every stream before it gives one a second batch, so counting tells whether one idles, unless
  // the streams finish out of turn.
  const bool idle = in_flight_ < spokes_.size() ||
                    std::any_of(spokes_.begin(), spokes_.end(), [](const spoke& each) { return each.batches == 0; });
  return idle ? wheel_room::idle : wheel_room::some;
}

std::uint32_t wheel::next_stream() noexcept {
  const auto count = static_cast<std::uint32_t>(spokes_.size());
  for (std::uint32_t busy = 0; busy < depth; ++busy) {
    for (std::uint32_t step = 0; step < count; ++step) {
      const std::uint32_t at = (turn_ + step) % count;
      if (spokes_[at].batches == busy) {
        turn_ = (at + 1) % count;
        return at;
      }
    }
  }
  assert(!"launch without room");
  return 0;
}

launch_fault wheel::launch(slot& filled, time_point now) noexcept {
  filled.stream = next_stream();
  spoke& on = spokes_[filled.stream];
  filled.work.launched = now;
  ++on.batches;
  ++in_flight_;
  if (launch_fault failed = enqueue_work(*on.queue, *filled.work.pipeline, filled); failed.what) {
    return failed;
  }
  if (mode_ == completion_mode::poll) {
    const fault failed = on.queue->record(*filled.done);
    // Only now: an event that was not recorded for this batch would say that it is done.
    if (!failed) {
      (on.polled[0] == nullptr ? on.polled[0] : on.polled[1]) = &filled;
    }
    return {failed};
  }
  return {on.queue->on_complete(batch_done, &filled.completed)};
}

launch_fault wheel::enqueue_work(stream& on, const plan& what, slot& with) noexcept {
  const batch& work = with.work;
  const auto frames = static_cast<std::size_t>(work.frames);
  if (fault failed = on.copy_in(with.arena.get(), with.pinned_input.get(), frames * what.input().bytes(work.leading))) {
    return {failed};
  }
  if (launch_fault failed = enqueue_stages(on, what, with); failed.what) {
    return failed;
  }
  for (const plan_output& output : what.outputs) {
    const plan_buffer& from = what.buffers[output.buffer];
    if (fault failed = on.copy_out(with.pinned_output.get() + output.pinned_offset, with.arena.get() + from.offset,
                                   frames * from.spec.bytes(work.leading))) {
      return {failed};
    }
  }
  return {};
}

launch_fault wheel::enqueue_stages(stream& on, const plan& what, slot& with) noexcept {
  std::byte* const arena = with.arena.get();
  const void** operand = with.operands.data();
  for (std::size_t index = 0; index < what.stages.size(); ++index) {
    const plan_stage& stage = what.stages[index];
    operation_arguments& arguments = with.launches[index];
    arguments.inputs = {operand, stage.inputs.size()};
    for (const std::size_t input : stage.inputs) {
      *operand++ = arena + what.buffers[input].offset;
    }
    arguments.output = arena + what.buffers[stage.output].offset;
    arguments.scratch = arena + stage.scratch_offset;
    arguments.extent = {with.work.frames, with.work.leading};
    if (fault failed = on.launch(*stage.compiled, arguments)) {
      return {failed, stage.name.c_str()};
    }
  }
  return {};
}

bool wheel::poll() noexcept {
  bool any = false;
  for (spoke& each : spokes_) {
    // A stream runs its batches in order: when the oldest is not done, the one behind it isn't either.
    while (each.polled[0] != nullptr) {
      completion_node& node = each.polled[0]->completed;
      node.status = {};
      if (each.polled[0]->done->query(node.status) == event::state::pending) {
        break;
      }
      node.queue->push(node);
      each.polled[0] = std::exchange(each.polled[1], nullptr);
      any = true;
    }
  }
  return any;
}

void wheel::retire(slot& completed) noexcept {
  --spokes_[completed.stream].batches;
  --in_flight_;
}

void wheel::warm_up(const plan& what, slot& on) {
  on.work.leading = what.input().shape.front();
  for (spoke& each : spokes_) {
    // Batch sizes double: an operator may keep a kernel, or an FFT plan, for each power of two.
    const bool first = &each == &spokes_.front();
    for (std::int64_t frames = first ? 1 : what.max_frames;; frames = std::min(2 * frames, what.max_frames)) {
      on.work.frames = frames;
      launch_fault failed = enqueue_work(*each.queue, what, on);
      if (!failed.what) {
        failed.what = each.queue->synchronize();
      }
      if (failed.what) {
        throw device_error("pipeline '" + what.declaration.name + "': the first launch failed" +
                           (*failed.stage != '\0' ? std::string(" at stage '") + failed.stage + "'" : std::string()) +
                           ": " + failed.what.name);
      }
      if (frames == what.max_frames) {
        break;
      }
    }
  }
}

}  // namespace penstock

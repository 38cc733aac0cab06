#include "daemon/batch/slot_ring.hpp"

#include <algorithm>
#include <string>

#include "daemon/pipeline/buffer_layout.hpp"
#include "daemon/pipeline/plan.hpp"

namespace penstock {

slot_size size_for(std::span<const plan> plans) {
  slot_size most;
  for (const plan& each : plans) {
    std::size_t operands = 0;
    std::size_t results = 0;
    for (const plan_stage& stage : each.stages) {
      operands += stage.inputs.size();
      results += stage.outputs;
    }
    most.pinned_input = std::max(most.pinned_input, each.pinned_input_bytes);
    most.pinned_output = std::max(most.pinned_output, each.pinned_output_bytes);
    most.workspace = std::max(most.workspace, each.device_bytes);
    most.max_frames = std::max(most.max_frames, static_cast<std::size_t>(each.max_frames));
    most.launches = std::max(most.launches, each.stages.size());
    most.operands = std::max(most.operands, operands);
    most.results = std::max(most.results, results);
    most.lanes = std::max(most.lanes, std::size_t{each.order.lanes});
    most.events = std::max(most.events, std::size_t{each.order.events});
  }
  return most;
}

slot_size with_room(slot_size least, std::size_t streams) {
  constexpr std::size_t stages = 32;
  constexpr std::size_t numbers = 8;  // of a frame that a reload makes tunable
  const std::size_t of_numbers = aligned_bytes(least.max_frames * numbers * sizeof(double));
  least.pinned_input = aligned_bytes(least.pinned_input) + of_numbers;
  least.workspace = aligned_bytes(least.workspace) + of_numbers;
  least.max_frames = std::max<std::size_t>(least.max_frames, 4096);
  least.launches = std::max(least.launches, stages);
  least.operands = std::max(least.operands, 2 * stages);
  least.results = std::max(least.results, 2 * stages);
  least.lanes = std::max(least.lanes, streams);
  least.events = std::max<std::size_t>(least.events, 16);
  return least;
}

std::string lack_of(const slot_size& available, const slot_size& needed) {
  std::string text;
  const auto compare = [&](std::size_t have, std::size_t need, const char* unit) {
    if (need > have) {
      text +=
          (text.empty() ? "" : ", ") + std::to_string(need) + " " + unit + " where there are " + std::to_string(have);
    }
  };
  compare(available.pinned_input, needed.pinned_input, "bytes for what comes in");
  compare(available.pinned_output, needed.pinned_output, "bytes for what goes out");
  compare(available.workspace, needed.workspace, "bytes on the device");
  compare(available.max_frames, needed.max_frames, "frames");
  compare(available.launches, needed.launches, "stages");
  compare(available.operands, needed.operands, "inputs of stages");
  compare(available.results, needed.results, "outputs of stages");
  compare(available.lanes, needed.lanes, "streams");
  compare(available.events, needed.events, "events");
  return text;
}

slot_ring::slot_ring(device& device, std::size_t slots, const slot_size& size, bool polled, completion_queue& completed,
                     wake_event& signal)
    : size_(size), returned_(signal) {
  slots_.reserve(slots);
  free_.reserve(slots);
  for (std::size_t index = 0; index < slots; ++index) {
    auto made = std::make_unique<slot>();
    made->index = static_cast<std::uint32_t>(index);
    made->pinned_input = device.allocate_pinned(size.pinned_input);
    made->pinned_output = device.allocate_pinned(size.pinned_output);
    made->workspace = device.allocate(size.workspace);
    if (polled) {
      made->done = device.open_event(false);
    }
    for (std::size_t joint = 0; joint < size.events; ++joint) {
      made->joints.push_back(device.open_event(false));
    }
    for (std::size_t lane = 0; lane < size.lanes; ++lane) {
      made->carried.push_back(device.open_event(false));
    }
    made->streams.reserve(size.lanes);
    made->predecessors.reserve(slots);
    made->work.requests.reserve(size.max_frames);
    made->launches.resize(size.launches);
    made->operands.resize(size.operands);
    made->results.resize(size.results);
    made->completed.owner = made.get();
    made->completed.queue = &completed;
    made->returned.owner = made.get();
    made->returned.queue = &returned_;
    free_.push_back(made.get());
    slots_.push_back(std::move(made));
  }
}

slot* slot_ring::claim() noexcept {
  if (free_.empty()) {
    return nullptr;
  }
  slot* taken = free_.back();
  free_.pop_back();
  taken->work.clear();
  taken->references.store(1, std::memory_order_relaxed);
  return taken;
}

void slot_ring::drop(slot& held) noexcept {
  // Release what this thread did with the memory, acquire what the others did, before the slot is used again.
  if (held.references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    held.returned.queue->push(held.returned);
  }
}

bool slot_ring::collect() noexcept {
  completion_node* node = returned_.take();
  const bool any = node != nullptr;
  while (node != nullptr) {
    completion_node* next = node->next;
    free_.push_back(node->owner);
    node = next;
  }
  return any;
}

}  // namespace penstock

#include "daemon/ring/ring.hpp"

namespace penstock {

ring::ring(device& from, std::size_t slots, const slot_size& size, bool polled, completion_queue& completed,
           wake_signal& signal)
    : size_(size), returned_(signal) {
  slots_.reserve(slots);
  free_.reserve(slots);
  for (std::size_t index = 0; index < slots; ++index) {
    auto made = std::make_unique<slot>();
    made->index = static_cast<std::uint32_t>(index);
    made->pinned_input = from.allocate_pinned(size.pinned_input);
    made->pinned_output = from.allocate_pinned(size.pinned_output);
    made->arena = from.allocate(size.arena);
    if (polled) {
      made->done = from.open_event(false);
    }
    made->work.requests.reserve(size.max_frames);
    made->launches.resize(size.launches);
    made->operands.resize(size.operands);
    made->completed.owner = made.get();
    made->completed.queue = &completed;
    made->returned.owner = made.get();
    made->returned.queue = &returned_;
    free_.push_back(made.get());
    slots_.push_back(std::move(made));
  }
}

slot* ring::claim() noexcept {
  if (free_.empty()) {
    return nullptr;
  }
  slot* taken = free_.back();
  free_.pop_back();
  taken->work.clear();
  taken->references.store(1, std::memory_order_relaxed);
  return taken;
}

void ring::drop(slot& held) noexcept {
  // Release what this thread did with the memory, acquire what the others did, before the slot is used again.
  if (held.references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    held.returned.queue->push(held.returned);
  }
}

bool ring::collect() noexcept {
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

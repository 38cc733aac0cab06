#include "daemon/batch/completion_queue.hpp"

namespace penstock {

void completion_queue::push(completion_node& node) noexcept {
  completion_node* head = head_.load(std::memory_order_relaxed);
  do {
    node.next = head;
  } while (!head_.compare_exchange_weak(head, &node, std::memory_order_seq_cst, std::memory_order_relaxed));
  signal_.wake();
}

completion_node* completion_queue::take() noexcept {
  if (head_.load(std::memory_order_relaxed) == nullptr) {
    return nullptr;
  }
  // All at once, so no node can come back between two steps (no ABA); the order is then turned round.
  completion_node* newest = head_.exchange(nullptr, std::memory_order_acquire);
  completion_node* oldest = nullptr;
  while (newest != nullptr) {
    completion_node* next = newest->next;
    newest->next = oldest;
    oldest = newest;
    newest = next;
  }
  return oldest;
}

}  // namespace penstock

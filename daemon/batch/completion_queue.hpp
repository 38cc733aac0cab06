#pragma once

#include <atomic>

#include "base/descriptors.hpp"
#include "kernels/fault.hpp"

namespace penstock {

struct slot;
class completion_queue;

/// The entry of a slot in a completion queue; in at most one queue at a time.
struct completion_node {
  completion_node* next = nullptr;
  slot* owner = nullptr;
  completion_queue* queue = nullptr;  ///< the queue that it is pushed to
  fault status;
};

/// A lock-free queue with many producers: any thread pushes nodes, the shard takes them all at once. Allocates nothing,
/// since the nodes belong to slots. Immovable: callbacks hold its address.
class completion_queue {
 public:
  explicit completion_queue(wake_event& signal) noexcept : signal_(signal) {}
  completion_queue(const completion_queue&) = delete;
  completion_queue& operator=(const completion_queue&) = delete;
  ~completion_queue() = default;

  /// Any thread. Pushes the node and wakes the shard.
  void push(completion_node& node) noexcept;
  /// The shard: everything pushed so far, oldest first, linked by `next`; nullptr if it is empty.
  [[nodiscard]] completion_node* take() noexcept;
  [[nodiscard]] bool empty() const noexcept { return head_.load(std::memory_order_seq_cst) == nullptr; }

 private:
  wake_event& signal_;
  std::atomic<completion_node*> head_{nullptr};  // written by pushers (any thread) and by take() (the shard)
};

}  // namespace penstock

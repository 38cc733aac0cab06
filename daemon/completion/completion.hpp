#pragma once

#include <atomic>

#include "kernels/fault.hpp"

namespace penstock {

/// Wakes one sleeping thread through a file descriptor that its loop waits on. Immovable: callbacks hold its address.
///
/// The protocol: the sleeper calls `prepare`, looks once more at everything that could have been brought to it, and
/// only then waits for `descriptor`. Whoever brings something stores it first, then calls `wake`.
class wake_signal {
 public:
  /// Throws std::system_error when there is no descriptor to be had.
  wake_signal();
  wake_signal(const wake_signal&) = delete;
  wake_signal& operator=(const wake_signal&) = delete;
  ~wake_signal();

  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  /// Sleeper: from here on `wake` signals the descriptor.
  void prepare() noexcept { sleeping_.store(true, std::memory_order_seq_cst); }
  /// Sleeper: awake again; clears the descriptor.
  void awake() noexcept;
  /// Any thread. One atomic exchange, and a system call only when the sleeper sleeps.
  void wake() noexcept;

 private:
  int descriptor_;
  std::atomic<bool> sleeping_{
      false};  // written by both sides: the exchange in wake() makes one of several wakers write
};

struct slot;
class completion_queue;

/// A slot on its way to the shard from another thread. A node is in at most one queue at a time.
struct completion_node {
  completion_node* next = nullptr;
  slot* owner = nullptr;
  completion_queue* queue = nullptr;  ///< where it is to be pushed
  fault status;
};

/// Nodes pushed by any thread, taken all at once by the shard. Lock-free (one exchange loop), allocates nothing: the
/// nodes belong to slots. Immovable: callbacks hold its address.
class completion_queue {
 public:
  explicit completion_queue(wake_signal& signal) noexcept : signal_(signal) {}
  completion_queue(const completion_queue&) = delete;
  completion_queue& operator=(const completion_queue&) = delete;
  ~completion_queue() = default;

  /// Any thread: stores, pushes, wakes.
  void push(completion_node& node) noexcept;
  /// The shard: everything pushed so far, oldest first, linked by `next`; nullptr when there is nothing.
  [[nodiscard]] completion_node* take() noexcept;
  [[nodiscard]] bool empty() const noexcept { return head_.load(std::memory_order_seq_cst) == nullptr; }

 private:
  wake_signal& signal_;
  std::atomic<completion_node*> head_{nullptr};  // written by pushers (any thread) and by take() (the shard)
};

}  // namespace penstock

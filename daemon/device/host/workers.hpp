#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "daemon/device/device.hpp"
#include "daemon/device/host/stream.hpp"

namespace penstock {

/// The worker threads of a host device, the queues that are ready for them, and those that are parked.
///
/// A queue stands in at most one place: in a ready list, parked, with the worker that runs it, or, with nothing
/// pending, nowhere. Ready queues are taken by priority, then in turn; but when lower ones have been passed over
/// `patience` times, the lowest of them is taken, so that low priority progresses. The lock is held for list work only,
/// never while a command runs. Any thread may call, except where said.
class host_workers {
 public:
  /// Starts the threads. Throws device_error.
  explicit host_workers(int threads);
  host_workers(const host_workers&) = delete;
  host_workers& operator=(const host_workers&) = delete;
  /// Every queue must have run dry.
  ~host_workers();

  [[nodiscard]] std::size_t count() const noexcept { return threads_.size(); }
  [[nodiscard]] const sticky_fault& health() const noexcept { return health_; }

  /// Gives a queue with pending commands to the workers. The caller holds the queue.
  void schedule(host_queue& ready) noexcept;
  /// Takes a queue off its worker until what it waits for is reached or the device fails. Returns false, and leaves it
  /// with the caller, when that is so already. The caller is the queue's runner.
  bool park(host_queue& runner, const host_wait& until) noexcept;
  /// `queue` has reached a position that is watched: wakes those who wait for it. The caller is the queue's runner.
  void release(host_queue& queue) noexcept;
  /// Blocks until the position is reached. Not for the workers' own threads.
  void await(host_queue& queue, std::uint64_t position) noexcept;
  /// Whether the runner of a queue of priority `mine` should give its worker away: a ready queue has a higher priority,
  /// or, at a `turn_end`, at least the same.
  [[nodiscard]] bool others_first(stream_priority mine, bool turn_end) const noexcept;
  /// The device has failed: no queue stays parked.
  void fail(fault met) noexcept;

 private:
  struct ready_list {
    host_queue* first = nullptr;
    host_queue* last = nullptr;
  };

  /// A thread in `await`.
  struct waiter {
    host_wait until;
    waiter* next = nullptr;
  };

  void work() noexcept;
  void stop() noexcept;
  // The following hold the lock.
  static void watch(const host_wait& until) noexcept;
  void append(host_queue& ready) noexcept;
  [[nodiscard]] host_queue* take() noexcept;
  template <class Reached>
  std::size_t unpark(Reached reached) noexcept;

  sticky_fault health_;
  std::atomic<unsigned> ready_mask_{};  // bit p: the list of priority p holds a queue; written under the lock
  std::mutex mutex_;
  std::condition_variable work_there_;  // workers wait
  std::condition_variable advanced_;    // `await` waits
  static constexpr int patience = 8;
  std::array<ready_list, 3> ready_;
  int passed_over_ = 0;  // times that a lower priority was ready and a higher one was taken
  host_queue* parked_ = nullptr;
  waiter* waiting_ = nullptr;
  std::size_t sleeping_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace penstock

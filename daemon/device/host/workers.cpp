#include "daemon/device/host/workers.hpp"

#include <algorithm>
#include <bit>
#include <string>
#include <system_error>

#include <pthread.h>

#include "daemon/device/host/stream.hpp"

namespace penstock {
namespace {

constexpr unsigned rank(stream_priority priority) noexcept {
  return static_cast<unsigned>(priority);
}

}  // namespace

host_workers::host_workers(int threads) {
  static_assert(rank(stream_priority::low) == 0 && rank(stream_priority::high) == 2);
  try {
    for (int index = 0; index < threads; ++index) {
      threads_.emplace_back([this] { work(); });
      pthread_setname_np(threads_.back().native_handle(), ("worker " + std::to_string(index)).c_str());
    }
  } catch (const std::system_error& error) {
    stop();
    throw device_error("could start only " + std::to_string(threads_.size()) + " of " + std::to_string(threads) +
                       " host worker threads (" + error.what() + "): set fewer, or raise the limit of threads");
  }
}

host_workers::~host_workers() {
  stop();
}

void host_workers::stop() noexcept {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_there_.notify_all();
  for (std::thread& each : threads_) {
    each.join();
  }
}

void host_workers::work() noexcept {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (host_queue* const next = take()) {
      lock.unlock();
      next->run(host_queue::runner::worker);
      lock.lock();
    } else if (stopping_) {
      return;
    } else {
      ++sleeping_;
      work_there_.wait(lock);
      --sleeping_;
    }
  }
}

void host_workers::append(host_queue& ready) noexcept {
  const unsigned priority = rank(ready.priority());
  ready_list& list = ready_[priority];
  ready.next_ = nullptr;
  (list.first == nullptr ? list.first : list.last->next_) = &ready;
  list.last = &ready;
  ready_mask_.store(ready_mask_.load(std::memory_order_relaxed) | 1U << priority, std::memory_order_relaxed);
}

host_queue* host_workers::take() noexcept {
  const unsigned ready = ready_mask_.load(std::memory_order_relaxed);
  if (ready == 0) {
    return nullptr;
  }
  const auto highest = static_cast<unsigned>(std::bit_width(ready)) - 1;
  const auto lowest = static_cast<unsigned>(std::countr_zero(ready));
  const bool lowest_now = lowest != highest && ++passed_over_ > patience;
  passed_over_ = lowest_now || lowest == highest ? 0 : passed_over_;
  const unsigned priority = lowest_now ? lowest : highest;
  ready_list& list = ready_[priority];
  host_queue* const first = list.first;
  list.first = first->next_;
  if (list.first == nullptr) {
    ready_mask_.store(ready & ~(1U << priority), std::memory_order_relaxed);
  }
  return first;
}

void host_workers::schedule(host_queue& ready) noexcept {
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    append(ready);
    wake = sleeping_ != 0;
  }
  if (wake) {
    work_there_.notify_one();
  }
}

// The runner is told no later than there.
void host_workers::watch(const host_wait& until) noexcept {
  std::atomic<std::uint64_t>& first = until.queue->watched_;
  first.store(std::min(first.load(std::memory_order_relaxed), until.position), std::memory_order_seq_cst);
}

bool host_workers::park(host_queue& runner, const host_wait& until) noexcept {
  const std::lock_guard lock(mutex_);
  watch(until);
  // Looked at again after saying so: a runner that gets there from here on calls `release`, and `fail` sets the fault
  // before it takes the lock.
  if (until.queue->completed() >= until.position || health_.get()) {
    return false;
  }
  runner.parked_on_ = until;
  runner.next_ = parked_;
  parked_ = &runner;
  return true;
}

template <class Reached>
std::size_t host_workers::unpark(Reached reached) noexcept {
  std::size_t count = 0;
  for (host_queue** link = &parked_; *link != nullptr;) {
    host_queue& queue = **link;
    if (!reached(queue.parked_on_)) {
      link = &queue.next_;
      continue;
    }
    *link = queue.next_;
    append(queue);
    ++count;
  }
  return std::min(count, sleeping_);
}

void host_workers::release(host_queue& queue) noexcept {
  std::size_t wakes = 0;
  {
    const std::lock_guard lock(mutex_);
    const std::uint64_t position = queue.completed();  // stays: the caller is who would raise it
    wakes = unpark([&](const host_wait& wait) { return wait.queue == &queue && position >= wait.position; });
    std::uint64_t first = host_queue::nobody;
    for (const host_queue* each = parked_; each != nullptr; each = each->next_) {
      first = each->parked_on_.queue == &queue ? std::min(first, each->parked_on_.position) : first;
    }
    bool arrived = false;
    for (const waiter* each = waiting_; each != nullptr; each = each->next) {
      if (each->until.queue != &queue) {
        continue;
      }
      if (each->until.position <= position) {
        arrived = true;
      } else {
        first = std::min(first, each->until.position);
      }
    }
    queue.watched_.store(first, std::memory_order_seq_cst);
    if (arrived) {
      advanced_.notify_all();
    }
  }
  for (; wakes != 0; --wakes) {
    work_there_.notify_one();
  }
}

void host_workers::await(host_queue& queue, std::uint64_t position) noexcept {
  std::unique_lock lock(mutex_);
  waiter self{{&queue, position}, waiting_};
  waiting_ = &self;
  watch(self.until);
  advanced_.wait(lock, [&] { return queue.completed() >= position; });
  waiter** link = &waiting_;
  while (*link != &self) {
    link = &(*link)->next;
  }
  *link = self.next;
}

bool host_workers::others_first(stream_priority mine, bool turn_end) const noexcept {
  const unsigned ready = ready_mask_.load(std::memory_order_relaxed);
  return (ready >> (turn_end ? rank(mine) : rank(mine) + 1)) != 0;
}

void host_workers::fail(fault met) noexcept {
  if (!health_.set(met)) {
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    unpark([](const host_wait&) { return true; });
  }
  work_there_.notify_all();
}

}  // namespace penstock

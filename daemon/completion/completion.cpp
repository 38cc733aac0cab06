#include "daemon/completion/completion.hpp"

#include <cerrno>
#include <cstdint>
#include <system_error>

#include <sys/eventfd.h>
#include <unistd.h>

namespace penstock {

wake_signal::wake_signal() : descriptor_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (descriptor_ < 0) {
    throw std::system_error(errno, std::generic_category(), "cannot open an eventfd");
  }
}

wake_signal::~wake_signal() {
  ::close(descriptor_);
}

void wake_signal::awake() noexcept {
  sleeping_.store(false, std::memory_order_relaxed);
  // Whether or not somebody signalled: a waker that was overtaken signals late, and would end every later sleep.
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t ignored = ::read(descriptor_, &count, sizeof count);
}

void wake_signal::wake() noexcept {
  // Sequentially consistent on both sides: either this sees `sleeping`, or the sleeper's last look sees the push.
  if (sleeping_.load(std::memory_order_seq_cst) && sleeping_.exchange(false, std::memory_order_seq_cst)) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t ignored = ::write(descriptor_, &one, sizeof one);
  }
}

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

#include "daemon/net/message_memory.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>

#include <malloc.h>

namespace penstock {
namespace {

using clock = std::chrono::steady_clock;

// Limits of glibc (mallopt(3)): the largest block from a heap, and the largest heap of a thread.
constexpr int largest_from_a_heap = 32 << 20;
constexpr int whole_heap = 64 << 20;

// Global, because malloc is. When traffic was last noted; 0 once the memory was returned.
std::atomic<clock::rep> noted{0};

}  // namespace

// The pad of a whole heap prevents an empty heap from being unmapped and mapped again at once.
void keep_message_memory() noexcept {
  ::mallopt(M_MMAP_THRESHOLD, largest_from_a_heap);
  ::mallopt(M_TRIM_THRESHOLD, whole_heap);
  ::mallopt(M_TOP_PAD, whole_heap);
}

void note_message_memory(clock::time_point now) noexcept {
  noted.store(now.time_since_epoch().count(), std::memory_order_relaxed);
}

bool return_message_memory(clock::time_point now) noexcept {
  clock::rep last = noted.load(std::memory_order_relaxed);
  if (last == 0 || now - clock::time_point(clock::duration(last)) < message_memory_kept ||
      !noted.compare_exchange_strong(last, 0, std::memory_order_relaxed)) {
    return false;
  }
  ::malloc_trim(0);
  return true;
}

void return_unused_memory() noexcept {
  constexpr std::size_t worth_it = std::size_t{128} << 20U;
  static std::size_t before = 0;  // bytes that were free at the last call
  const std::size_t now = ::mallinfo2().fordblks;
  // Memory that is free twice in a row is not in use by current traffic.
  if (std::min(before, now) > worth_it) {
    ::malloc_trim(0);
    before = 0;
    return;
  }
  before = now;
}

}  // namespace penstock

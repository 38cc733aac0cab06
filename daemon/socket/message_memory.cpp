#include "daemon/socket/message_memory.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>

#include <malloc.h>

namespace penstock {
namespace {

using clock = std::chrono::steady_clock;

// glibc's own bounds (mallopt(3)): no larger block can come from a heap, and no heap of a thread is larger.
constexpr int largest_from_a_heap = 32 << 20;
constexpr int whole_heap = 64 << 20;

// malloc is the process's, so this is too: when messages were noted last, 0 once their memory has gone back.
std::atomic<clock::rep> noted{0};

}  // namespace

// With a pad of a whole heap, none that is empty is unmapped while its like may be wanted again at once.
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
  static std::size_t before = 0;  // free at the last look
  const std::size_t now = ::mallinfo2().fordblks;
  // What is free twice in a row is not what the traffic of the moment takes and gives back.
  if (std::min(before, now) > worth_it) {
    ::malloc_trim(0);
    before = 0;
    return;
  }
  before = now;
}

}  // namespace penstock

#include "daemon/socket/message_memory.hpp"

#include <malloc.h>

namespace penstock {
namespace {

// glibc's own bounds (mallopt(3)): no larger block can come from a heap, and no heap of a thread is larger.
constexpr int largest_from_a_heap = 32 << 20;
constexpr int whole_heap = 64 << 20;

}  // namespace

// A heap that is empty as a whole still goes back, so a burst does not stay for good.
void keep_message_memory() noexcept {
  ::mallopt(M_MMAP_THRESHOLD, largest_from_a_heap);
  ::mallopt(M_TRIM_THRESHOLD, whole_heap);
}

}  // namespace penstock

#pragma once

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace penstock {

// What goes through a socket of libzmq within the process is written by one thread and read by another. libzmq orders
// them, by atomics that ThreadSanitizer does not see; these two say so. Otherwise they do nothing.

/// The thread that sends, before it does. `bytes`: where the message's content lies.
inline void hand_over([[maybe_unused]] void* bytes) noexcept {
#ifdef __SANITIZE_THREAD__
  __tsan_release(bytes);
#endif
}

/// The thread that receives, before it reads.
inline void take_over([[maybe_unused]] void* bytes) noexcept {
#ifdef __SANITIZE_THREAD__
  __tsan_acquire(bytes);
#endif
}

}  // namespace penstock

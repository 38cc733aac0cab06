// Preloaded into the daemon, it makes allocations fail, as a machine without memory does. What it counts and what is to
// fail stands in a file that the test shares with the process, named by FAIL_MALLOC_CONTROL; the same is written in
// fail_malloc.py. What the loader allocates before it initializes this library is not counted.
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include <fcntl.h>
#include <sys/mman.h>

// glibc's own names: dlsym would allocate.
extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* memory, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);
}

namespace {

struct control {
  std::atomic<std::uint64_t> calls;      ///< since the start
  std::atomic<std::uint64_t> countdown;  ///< the allocation that brings it to 0 fails; at 0 none does
  std::atomic<std::uint32_t> onwards;    ///< and all behind it
  std::atomic<std::uint32_t> failed;     ///< whether one has failed
};

control* shared = nullptr;

[[gnu::constructor(101)]] void open_control() {
  const char* const path = std::getenv("FAIL_MALLOC_CONTROL");
  const int file = path != nullptr ? ::open(path, O_RDWR | O_CLOEXEC) : -1;
  if (file >= 0) {
    void* const mapped = ::mmap(nullptr, sizeof(control), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    shared = mapped != MAP_FAILED ? static_cast<control*>(mapped) : nullptr;
  }
}

bool fails() noexcept {
  if (shared == nullptr) {
    return false;
  }
  ++shared->calls;
  std::uint64_t left = shared->countdown;
  while (left > 0 && !shared->countdown.compare_exchange_weak(left, left - 1)) {
  }
  const bool now = left == 1 || (left == 0 && shared->onwards != 0 && shared->failed != 0);
  if (now) {
    shared->failed = 1;
    errno = ENOMEM;
  }
  return now;
}

}  // namespace

extern "C" {

[[gnu::visibility("default")]] void* malloc(std::size_t bytes) {
  return fails() ? nullptr : __libc_malloc(bytes);
}

[[gnu::visibility("default")]] void* calloc(std::size_t count, std::size_t bytes) {
  return fails() ? nullptr : __libc_calloc(count, bytes);
}

[[gnu::visibility("default")]] void* realloc(void* memory, std::size_t bytes) {
  return fails() ? nullptr : __libc_realloc(memory, bytes);
}

[[gnu::visibility("default")]] void* memalign(std::size_t alignment, std::size_t bytes) {
  return fails() ? nullptr : __libc_memalign(alignment, bytes);
}

[[gnu::visibility("default")]] void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  return memalign(alignment, bytes);
}

[[gnu::visibility("default")]] int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) {
  void* const made = memalign(alignment, bytes);
  if (made == nullptr) {
    return ENOMEM;
  }
  *memory = made;
  return 0;
}

}  // extern "C"

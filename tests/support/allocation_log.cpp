#include "tests/support/allocation_log.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <sstream>
#include <utility>

#include <dlfcn.h>
#include <execinfo.h>

extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* memory, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);
}

namespace penstock::testing {
namespace {

constexpr std::size_t frames_kept = 20;
constexpr std::size_t most_stacks = 4096;

struct stack {
  std::array<void*, frames_kept> frames{};
  std::uint64_t count = 0;
};

// Nothing here may ask for memory: it runs while somebody asks for memory.
std::array<stack, most_stacks> stacks;
std::size_t stack_count = 0;
std::atomic_flag stacks_taken;      // held by whoever writes the two above
std::atomic<bool> watching{false};  // written by begin() and end(), read by every thread
thread_local bool exempt = false;
thread_local bool inside = false;  // backtrace() may ask for memory itself

[[gnu::noinline]] void note() noexcept {
  if (!watching.load(std::memory_order_relaxed) || exempt || inside) {
    return;
  }
  inside = true;
  stack seen;
  (void)::backtrace(seen.frames.data(), frames_kept);
  while (stacks_taken.test_and_set(std::memory_order_acquire)) {
  }
  stack* const end = stacks.data() + stack_count;
  stack* const known = std::find_if(stacks.data(), end, [&](const stack& each) { return each.frames == seen.frames; });
  if (known != end) {
    ++known->count;
  } else if (stack_count < most_stacks) {
    seen.count = 1;
    stacks[stack_count++] = seen;
  }
  stacks_taken.clear(std::memory_order_release);
  inside = false;
}

struct frame {
  std::string library;
  std::string text;
};

frame frame_at(void* address) {
  Dl_info found{};
  if (::dladdr(address, &found) == 0 || found.dli_fname == nullptr) {
    return {"?", "?"};
  }
  const std::string path = found.dli_fname;
  const std::string library = path.substr(path.rfind('/') + 1);
  if (found.dli_sname != nullptr) {
    return {library, found.dli_sname};
  }
  std::ostringstream text;
  text << library << "+0x" << std::hex << (static_cast<char*>(address) - static_cast<char*>(found.dli_fbase));
  return {library, text.str()};
}

bool of_the_system(const std::string& library) {
  const auto begins = [&](const char* name) { return library.rfind(name, 0) == 0; };
  return begins("libc.so") || begins("libstdc++") || begins("libgcc") || begins("ld-linux");
}

// The log's own frames are at the top: note() and what took the place of malloc.
allocation_place place_of(const stack& seen, const std::string& program) {
  allocation_place made;
  made.count = seen.count;
  constexpr std::size_t own_frames = 2;
  for (std::size_t at = own_frames; at < frames_kept && seen.frames[at] != nullptr; ++at) {
    const frame here = frame_at(seen.frames[at]);
    if (made.library.empty()) {
      if (!of_the_system(here.library)) {
        made.library = here.library;
        made.caller = here.text;
      }
    } else if (made.library != program && here.library == program) {
      made.entry = here.text;
      break;
    }
  }
  return made;
}

}  // namespace

void allocation_log::exempt_this_thread() noexcept {
  exempt = true;
}

void allocation_log::begin() {
  std::array<void*, 1> frames{};
  (void)::backtrace(frames.data(), 1);  // loads what it needs
  stack_count = 0;
  watching = true;
}

void allocation_log::end() noexcept {
  watching = false;
}

std::vector<allocation_place> allocation_log::places() {
  const std::string program = frame_at(reinterpret_cast<void*>(&allocation_log::places)).library;
  std::vector<allocation_place> made;
  for (std::size_t at = 0; at < stack_count; ++at) {
    allocation_place here = place_of(stacks[at], program);
    const auto known = std::find_if(made.begin(), made.end(), [&](const allocation_place& each) {
      return each.caller == here.caller && each.entry == here.entry;
    });
    if (known != made.end()) {
      known->count += here.count;
    } else {
      made.push_back(std::move(here));
    }
  }
  return made;
}

}  // namespace penstock::testing

extern "C" {

[[gnu::visibility("default"), gnu::noinline]] void* malloc(std::size_t bytes) noexcept {
  penstock::testing::note();
  return __libc_malloc(bytes);
}

[[gnu::visibility("default"), gnu::noinline]] void* calloc(std::size_t count, std::size_t bytes) noexcept {
  penstock::testing::note();
  return __libc_calloc(count, bytes);
}

[[gnu::visibility("default"), gnu::noinline]] void* realloc(void* memory, std::size_t bytes) noexcept {
  penstock::testing::note();
  return __libc_realloc(memory, bytes);
}

[[gnu::visibility("default"), gnu::noinline]] void* memalign(std::size_t alignment, std::size_t bytes) noexcept {
  penstock::testing::note();
  return __libc_memalign(alignment, bytes);
}

[[gnu::visibility("default"), gnu::noinline]] void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  penstock::testing::note();
  return __libc_memalign(alignment, bytes);
}

[[gnu::visibility("default"), gnu::noinline]] int posix_memalign(void** memory, std::size_t alignment,
                                                                 std::size_t bytes) noexcept {
  penstock::testing::note();
  *memory = __libc_memalign(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}

}  // extern "C"

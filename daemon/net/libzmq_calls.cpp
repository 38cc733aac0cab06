// Replacements of C library functions that libzmq calls; the program's symbols take precedence over its libraries'.
// Each behaves as the original and adds a limit that libzmq 4.3.4 does not have. `recv` and `close` act only on
// descriptors from `accept4`. Boost.Asio, which is compiled into the program, calls `accept`.

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include <dlfcn.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/process_limits.hpp"
#include "daemon/net/connection_limits.hpp"

namespace {

// ThreadSanitizer can't see how libzmq passes descriptors between threads, and ignores what libzmq calls. So under it
// `recv` and `close` are not replaced, and connections are not counted.
#ifdef __SANITIZE_THREAD__
#define PENSTOCK_METERS 0
#else
#define PENSTOCK_METERS 1
#endif

// The original functions, of the C library or of a sanitizer. A sanitizer closes files before it can look up symbols,
// so until the program starts `close` is a direct system call. So are all calls for libzmq's connections.
#if PENSTOCK_METERS
ssize_t (*next_recv)(int, void*, std::size_t, int) = nullptr;
int (*next_close)(int) = nullptr;
#endif
int (*next_rand)() = nullptr;

template <typename Function>
void look_up(Function& function, const char* name) noexcept {
  function = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

[[gnu::constructor]] void look_up_all() noexcept {
  look_up(next_rand, "rand");
#if PENSTOCK_METERS
  look_up(next_recv, "recv");
  look_up(next_close, "close");
#endif
}

}  // namespace

// Under names of our own, because headers may define the originals inline.
extern "C" {
[[gnu::visibility("default")]] int penstock_accept4(int listening, sockaddr* address, socklen_t* size,
                                                    int flags) __asm__("accept4");
[[gnu::visibility("default")]] int penstock_rand() __asm__("rand");
#if PENSTOCK_METERS
[[gnu::visibility("default")]] ssize_t penstock_recv(int descriptor, void* room, std::size_t size,
                                                     int flags) __asm__("recv");
[[gnu::visibility("default")]] int penstock_close(int descriptor) __asm__("close");
#endif

int penstock_accept4(int listening, sockaddr* address, socklen_t* size, int flags) {
  // Refuses several at once: an iteration of libzmq's I/O thread for each would cost more than the refusal.
  constexpr int most_refused = 32;
  const socklen_t room = size != nullptr ? *size : 0;
  for (int refused = 0; refused < most_refused; ++refused) {
    if (size != nullptr) {
      *size = room;
    }
    const int taken = penstock::accept_connection(listening, address, size, flags);
    if (taken < 0 || penstock::admit_connection(taken)) {
      penstock::begin_metering(taken, listening);
      return taken;
    }
    ::syscall(SYS_close, taken);
  }
  errno = EAGAIN;
  return -1;
}

#if PENSTOCK_METERS
ssize_t penstock_recv(int descriptor, void* room, std::size_t size, int flags) {
  if (!penstock::is_metered(descriptor)) {
    return next_recv(descriptor, room, size, flags);
  }
  const ssize_t came = ::syscall(SYS_recvfrom, descriptor, room, size, flags, nullptr, nullptr);
  if (came > 0 && (flags & MSG_PEEK) == 0 &&
      !penstock::meter_received(descriptor,
                                std::span(static_cast<const std::byte*>(room), static_cast<std::size_t>(came)))) {
    errno = ECONNRESET;
    return -1;
  }
  return came;
}

int penstock_close(int descriptor) {
  return next_close == nullptr || penstock::end_metering(descriptor)
             ? static_cast<int>(::syscall(SYS_close, descriptor))
             : next_close(descriptor);
}
#endif

// libzmq numbers connections without a routing id, beginning at a value of `rand`, which it seeds with the time. An
// attacker who guesses the numbers can take one before its turn, which ends the process. So `rand` is random here.
int penstock_rand() {
  std::uint32_t value = 0;
  if (::getrandom(&value, sizeof value, 0) != static_cast<ssize_t>(sizeof value)) {
    return next_rand();
  }
  return static_cast<int>(value & static_cast<std::uint32_t>(RAND_MAX));
}
}

// Calls that libzmq makes to the C library and that the daemon answers itself: the program's symbols come before those
// of its libraries. Each does what the library's would, with a bound that libzmq 4.3.4 does not have. Of descriptors
// that did not come by `accept4`, `recv` and `close` do no more than pass on; Boost.Asio, which is compiled into the
// program, calls `accept`.

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

#include "daemon/socket/connection_meter.hpp"
#include "daemon/socket/descriptors.hpp"

namespace {

using receive_call = ssize_t (*)(int, void*, std::size_t, int);
using close_call = int (*)(int);

// The next ones of those names: the C library's, or a sanitizer's. A sanitizer that starts closes files before it can
// look up anything: until the program's own start only `close` is called, and goes straight to the system. So do the
// calls for libzmq's connections: a sanitizer can't see how libzmq hands them from thread to thread.
#ifdef __SANITIZE_THREAD__
constexpr bool always_to_the_system = true;  // nor what else libzmq closes and reads
#else
constexpr bool always_to_the_system = false;
#endif

receive_call next_recv = nullptr;
close_call next_close = nullptr;
int (*next_rand)() = nullptr;

template <typename Function>
void look_up(Function& into, const char* name) noexcept {
  into = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

[[gnu::constructor]] void look_up_all() noexcept {
  look_up(next_recv, "recv");
  look_up(next_rand, "rand");
  look_up(next_close, "close");
}

}  // namespace

// Under names of our own here, since headers may define functions of the others inline.
extern "C" {
[[gnu::visibility("default")]] int penstock_accept4(int listening, sockaddr* address, socklen_t* size,
                                                    int flags) __asm__("accept4");
[[gnu::visibility("default")]] ssize_t penstock_recv(int descriptor, void* room, std::size_t size,
                                                     int flags) __asm__("recv");
[[gnu::visibility("default")]] int penstock_close(int descriptor) __asm__("close");
[[gnu::visibility("default")]] int penstock_rand() __asm__("rand");

int penstock_accept4(int listening, sockaddr* address, socklen_t* size, int flags) {
  const int taken = penstock::accept_connection(listening, address, size, flags);
  penstock::begin_metering(taken);
  return taken;
}

ssize_t penstock_recv(int descriptor, void* room, std::size_t size, int flags) {
  const bool metered = penstock::is_metered(descriptor);
  if (!metered && !always_to_the_system) {
    return next_recv(descriptor, room, size, flags);
  }
  const ssize_t came = ::syscall(SYS_recvfrom, descriptor, room, size, flags, nullptr, nullptr);
  if (metered && came > 0 && (flags & MSG_PEEK) == 0 &&
      !penstock::meter_received(descriptor,
                                std::span(static_cast<const std::byte*>(room), static_cast<std::size_t>(came)))) {
    errno = ECONNRESET;
    return -1;
  }
  return came;
}

[[gnu::no_sanitize("thread")]] int penstock_close(int descriptor) {
  return next_close == nullptr || penstock::end_metering(descriptor) || always_to_the_system
             ? static_cast<int>(::syscall(SYS_close, descriptor))
             : next_close(descriptor);
}

// libzmq numbers connections that bring no routing id from a value of `rand`, which it seeds with the time: who can
// guess the numbers can take one before its turn comes, which ends the process.
int penstock_rand() {
  std::uint32_t value = 0;
  if (::getrandom(&value, sizeof value, 0) != static_cast<ssize_t>(sizeof value)) {
    return next_rand();
  }
  return static_cast<int>(value & static_cast<std::uint32_t>(RAND_MAX));
}
}

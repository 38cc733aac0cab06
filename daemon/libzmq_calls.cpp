// Calls that libzmq makes to the C library and that the daemon answers itself: the program's symbols come before those
// of its libraries. Each does what the library's would, with a bound that libzmq 4.3.4 does not have. Boost.Asio, which
// is compiled into the program, calls `accept`, not `accept4`.

#include <cstdint>
#include <cstdlib>

#include <dlfcn.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "daemon/socket/descriptors.hpp"

namespace {

// The next one of that name: the C library's, or a sanitizer's.
template <typename Function>
Function next(const char* name) noexcept {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

// Under names of our own here, since headers may define functions of the others inline.
extern "C" {
[[gnu::visibility("default")]] int penstock_accept4(int listening, sockaddr* address, socklen_t* size,
                                                    int flags) __asm__("accept4");
[[gnu::visibility("default")]] int penstock_rand() __asm__("rand");

int penstock_accept4(int listening, sockaddr* address, socklen_t* size, int flags) {
  static const auto call = next<penstock::accept_call>("accept4");
  return penstock::accept_connection(call, listening, address, size, flags);
}

// libzmq numbers connections that bring no routing id from a value of `rand`, which it seeds with the time: who can
// guess the numbers can take one before its turn comes, which ends the process.
int penstock_rand() {
  std::uint32_t value = 0;
  if (::getrandom(&value, sizeof value, 0) != static_cast<ssize_t>(sizeof value)) {
    static const auto call = next<int (*)()>("rand");
    return call();
  }
  return static_cast<int>(value & static_cast<std::uint32_t>(RAND_MAX));
}
}

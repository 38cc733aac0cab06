#include "daemon/socket/descriptors.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <ctime>
#include <limits>
#include <mutex>

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/socket/connection_meter.hpp"

namespace penstock {
namespace {

// The admin's connections (64) and what else may open something for a moment; of a small limit a half.
constexpr std::size_t most_kept = 96;
constexpr std::size_t kept_share = 2;
// Where even the held descriptor is of no use, the I/O thread that asks would do nothing else.
constexpr timespec back_off{.tv_sec = 0, .tv_nsec = 5'000'000};

std::atomic<std::uint64_t> turned_away{0};
std::mutex held_mutex;
int held = -1;

// Straight to the system: what sanitizers know of libzmq's threads would make races of these descriptors.
int accept_by_the_system(int listening, sockaddr* address, socklen_t* size, int flags) noexcept {
  return static_cast<int>(::syscall(SYS_accept4, listening, address, size, flags));
}

void turn_away(int taken) noexcept {
  static_cast<void>(::syscall(SYS_close, taken));
  turned_away.fetch_add(1, std::memory_order_relaxed);
}

// No connection gets through here to stay: a thread that takes the descriptor meanwhile leaves this one without.
int turn_away_with_the_held_one(int listening) noexcept {
  const std::lock_guard lock(held_mutex);
  if (held >= 0) {
    ::close(held);
  }
  const int taken = accept_by_the_system(listening, nullptr, nullptr, SOCK_CLOEXEC);
  if (taken >= 0) {
    turn_away(taken);
  }
  held = ::eventfd(0, EFD_CLOEXEC);
  return taken;
}

}  // namespace

bool raise_descriptor_limit() noexcept {
  held = ::eventfd(0, EFD_CLOEXEC);
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return false;
  }
  limit.rlim_cur = limit.rlim_max;
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

std::size_t descriptor_limit() noexcept {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY
             ? limit.rlim_cur
             : std::numeric_limits<std::size_t>::max();
}

bool is_among_the_last(int descriptor) noexcept {
  const std::size_t limit = std::min(descriptor_limit(), metered_descriptors);
  return static_cast<std::size_t>(descriptor) >= limit - std::min(most_kept, limit / kept_share);
}

bool descriptors_are_short() noexcept {
  const int next = ::eventfd(0, EFD_CLOEXEC);
  if (next < 0) {
    return errno == EMFILE || errno == ENFILE;
  }
  const bool last = is_among_the_last(next);
  ::close(next);
  return last;
}

int accept_connection(int listening, sockaddr* address, socklen_t* size, int flags) noexcept {
  const int taken = accept_by_the_system(listening, address, size, flags);
  if (taken >= 0) {
    if (!is_among_the_last(taken)) {
      return taken;
    }
    turn_away(taken);
  } else if (errno != EMFILE && errno != ENFILE) {
    return taken;
  } else if (turn_away_with_the_held_one(listening) < 0) {
    ::nanosleep(&back_off, nullptr);
  }
  errno = ENFILE;
  return -1;
}

std::uint64_t connections_turned_away() noexcept {
  return turned_away.load(std::memory_order_relaxed);
}

}  // namespace penstock

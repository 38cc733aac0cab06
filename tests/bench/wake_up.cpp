#include "tests/bench/wake_up.hpp"

#include <cerrno>
#include <cstdint>
#include <system_error>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace penstock::bench {
wake_up::wake_up() : event_(::eventfd(0, EFD_CLOEXEC)) {
  if (event_ < 0) {
    throw std::system_error(errno, std::generic_category(), "eventfd");
  }
}

wake_up::~wake_up() {
  ::close(event_);
}

void wake_up::ring() noexcept {
  const std::uint64_t one = 1;
  static_cast<void>(::write(event_, &one, sizeof one) == sizeof one);
}

bool wake_up::rest(int seconds) {
  pollfd waiting{event_, POLLIN, 0};
  if (::poll(&waiting, 1, seconds * 1000) == 0) {
    return false;
  }
  std::uint64_t rings = 0;
  static_cast<void>(::read(event_, &rings, sizeof rings) == sizeof rings);
  return true;
}

}  // namespace penstock::bench

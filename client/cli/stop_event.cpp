#include "client/cli/stop_event.hpp"

#include <cerrno>
#include <cstdint>
#include <system_error>

#include <sys/eventfd.h>
#include <unistd.h>

namespace penstock::cli {

stop_event::stop_event() : descriptor_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (descriptor_ < 0) {
    throw std::system_error(errno, std::generic_category(), "eventfd");
  }
}

stop_event::~stop_event() {
  ::close(descriptor_);
}

bool stop_event::request(int signal) noexcept {
  if (requested_.exchange(true)) {
    return false;
  }
  signal_ = signal;
  const int before = errno;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(descriptor_, &one, sizeof one);  // an empty eventfd takes it
  errno = before;
  return true;
}

}  // namespace penstock::cli

#include "client/cpp/doorbell.hpp"

#include <cstdint>

#include <sys/eventfd.h>
#include <unistd.h>

#include "client/cpp/last_error.hpp"

namespace penstock::link {

doorbell::doorbell() : descriptor_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (descriptor_ < 0) {
    throw_last_error("eventfd");
  }
}

doorbell::~doorbell() {
  ::close(descriptor_);
}

// A full counter already wakes, an empty one is already silent: neither result matters.
void doorbell::ring() noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(descriptor_, &one, sizeof one);
}

void doorbell::silence() noexcept {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto taken = ::read(descriptor_, &count, sizeof count);
}

}  // namespace penstock::link

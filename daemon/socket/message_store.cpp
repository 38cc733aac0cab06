#include "daemon/socket/message_store.hpp"

#include <bit>
#include <utility>

namespace penstock {

// Room for twice as many each time: requests that wait for the first time late find theirs.
void message_store::keep(std::uint32_t place, zmq::message_t&& message) {
  if (place >= kept_.size()) {
    kept_.resize(std::bit_ceil(std::size_t{place} + 1));
  }
  kept_[place] = std::move(message);
}

std::span<std::byte> message_store::bytes(std::uint32_t place) noexcept {
  return {static_cast<std::byte*>(kept_[place].data()), kept_[place].size()};
}

zmq::message_t message_store::take(std::uint32_t place) noexcept {
  zmq::message_t given;
  if (place < kept_.size()) {
    given.swap(kept_[place]);
  }
  return given;
}

}  // namespace penstock

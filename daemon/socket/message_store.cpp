#include "daemon/socket/message_store.hpp"

#include <bit>
#include <utility>

namespace penstock {

// Room for twice as many each time: requests that wait for the first time late find theirs.
void message_store::keep(std::uint32_t place, zmq::message_t&& message, std::size_t from) {
  if (place >= kept_.size()) {
    kept_.resize(std::bit_ceil(std::size_t{place} + 1));
  }
  kept_[place] = {std::move(message), from};
}

std::span<std::byte> message_store::bytes(std::uint32_t place) noexcept {
  entry& kept = kept_[place];
  return std::span{static_cast<std::byte*>(kept.message.data()), kept.message.size()}.subspan(kept.from);
}

zmq::message_t message_store::take(std::uint32_t place) {
  entry given;
  if (place < kept_.size()) {
    std::swap(given, kept_[place]);
  }
  if (given.from == 0) {
    return std::move(given.message);
  }
  const auto* const first = static_cast<const std::byte*>(given.message.data());
  return {first + given.from, given.message.size() - given.from};
}

void message_store::drop(std::uint32_t place) noexcept {
  if (place < kept_.size()) {
    kept_[place] = {};
  }
}

}  // namespace penstock

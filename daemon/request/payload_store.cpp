#include "daemon/request/payload_store.hpp"

#include <bit>
#include <utility>

namespace penstock {

// Doubles, so that requests that wait for the first time late find room.
void payload_store::keep(std::uint32_t index, zmq::message_t&& message, std::size_t offset) {
  if (index >= entries_.size()) {
    entries_.resize(std::bit_ceil(std::size_t{index} + 1));
  }
  entries_[index] = {std::move(message), offset};
}

std::span<std::byte> payload_store::bytes(std::uint32_t index) noexcept {
  if (index >= entries_.size()) {
    return {};
  }
  entry& kept = entries_[index];
  return std::span{static_cast<std::byte*>(kept.message.data()), kept.message.size()}.subspan(kept.offset);
}

zmq::message_t payload_store::take(std::uint32_t index) {
  entry given;
  if (index < entries_.size()) {
    std::swap(given, entries_[index]);
  }
  if (given.offset == 0) {
    return std::move(given.message);
  }
  const auto* const first = static_cast<const std::byte*>(given.message.data());
  return {first + given.offset, given.message.size() - given.offset};
}

void payload_store::drop(std::uint32_t index) noexcept {
  if (index < entries_.size()) {
    entries_[index] = {};
  }
}

}  // namespace penstock

#include "daemon/ingress/ingress.hpp"

namespace penstock {
namespace {

std::span<const std::byte> bytes_of(const zmq::message_t& part) noexcept {
  return {static_cast<const std::byte*>(part.data()), part.size()};
}

}  // namespace

std::optional<incoming> ingress::receive() {
  if (!from_.get().recv(identity_, zmq::recv_flags::dontwait)) {
    return std::nullopt;
  }
  incoming message;
  // ROUTER hands over whole messages: once the first part is here, the others are too.
  bool more = identity_.more();
  while (more) {
    zmq::message_t& part = message.parts < kept_.size() ? kept_[message.parts] : surplus_;
    if (!from_.get().recv(part, zmq::recv_flags::dontwait)) {
      break;
    }
    more = part.more();
    message.bytes += message.parts > 0 ? part.size() : 0;
    ++message.parts;
  }
  surplus_.rebuild();
  message.identity = {static_cast<const char*>(identity_.data()), identity_.size()};
  message.head = message.parts > 0 ? bytes_of(kept_[0]) : std::span<const std::byte>{};
  message.body = message.parts > 1 ? bytes_of(kept_[1]) : std::span<const std::byte>{};
  return message;
}

}  // namespace penstock

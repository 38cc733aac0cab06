#include "daemon/ingress/ingress.hpp"

#include "proto/message.hpp"

namespace penstock {
namespace {

std::span<const std::byte> bytes_of(const zmq::message_t& part) noexcept {
  return {static_cast<const std::byte*>(part.data()), part.size()};
}

}  // namespace

std::optional<incoming> ingress::receive() {
  const zmq::recv_result_t identity_bytes = from_.get().recv(identity_, zmq::recv_flags::dontwait);
  if (!identity_bytes) {
    return std::nullopt;
  }
  incoming message;
  // ROUTER hands over whole messages: once the first part is here, the others are too.
  bool more = identity_.more();
  std::size_t all_bytes = 0;
  while (more) {
    zmq::message_t& part = message.parts < kept_.size() ? kept_[message.parts] : surplus_;
    if (!from_.get().recv(part, zmq::recv_flags::dontwait)) {
      break;
    }
    more = part.more();
    all_bytes += part.size();
    message.bytes += message.parts > 0 ? part.size() : 0;
    ++message.parts;
  }
  message.connection = connection_at(::zmq_msg_get(identity_.handle(), ZMQ_SRCFD));
  meter_heard(message.connection.descriptor, all_bytes, message.parts);
  if (message.parts > kept_.size()) {
    surplus_.rebuild();
  }
  message.identity = {static_cast<const char*>(identity_.data()), *identity_bytes};
  message.head = message.parts > 0 ? bytes_of(kept_[0]) : std::span<const std::byte>{};
  message.body = message.parts > 1 ? bytes_of(kept_[1]) : std::span<const std::byte>{};
  return message;
}

// Letter by letter: ThreadSanitizer can't see how libzmq hands over the text, which another thread of it wrote.
__attribute__((no_sanitize("thread"))) std::string ingress::user() const {
  const char* const found = ::zmq_msg_gets(kept_[0].handle(), "User-Id");
  std::string made;
  for (const char* letter = found; letter != nullptr && *letter != '\0'; ++letter) {
    const char own = *letter;
    made += own;
  }
  return made;
}

void ingress::park(const incoming& what, std::uint32_t place) {
  zmq::message_t& part = kept_[what.parts > 1 ? 1 : 0];
  const std::size_t from = part.size() - what.body.size();
  if (from <= wire::part_bytes(1)) {
    parked_.keep(place, std::move(part), from);
  } else {  // headers of 4 KiB would be bytes that no credit counts
    parked_.keep(place, zmq::message_t(what.body.data(), what.body.size()));
  }
}

}  // namespace penstock

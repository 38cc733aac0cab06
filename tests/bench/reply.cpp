#include "tests/bench/reply.hpp"

#include <stdexcept>

namespace penstock::bench {

std::optional<reply> receive_reply(zmq::socket_t& from) {
  zmq::message_t head;
  if (!from.recv(head)) {
    return std::nullopt;
  }
  reply came;
  const std::span part{static_cast<const std::byte*>(head.data()), head.size()};
  if (wire::decode(part, came.header) != wire::decode_error::none) {
    throw std::runtime_error("a reply can't be read");
  }
  if (!head.more()) {
    came.payload_bytes = wire::inline_payloads(part, came.header).size();
  }
  zmq::message_t payload;
  for (bool more = head.more(); more; more = payload.more()) {
    (void)from.recv(payload);
    came.payload_bytes += payload.size();
  }
  return came;
}

}  // namespace penstock::bench

#include "daemon/egress/reply_parts.hpp"

namespace penstock {

std::size_t bytes_of(const reply_parts& parts) noexcept {
  std::size_t total = 0;
  for (const zmq::message_t& part : parts) {
    total += part.size();
  }
  return total;
}

void share(reply_parts& from, reply_parts& into) {
  into.clear();
  for (zmq::message_t& part : from) {
    into.emplace_back().copy(part);
  }
}

}  // namespace penstock

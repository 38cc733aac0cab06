#pragma once

#include <cstddef>
#include <vector>

#include <zmq.hpp>

namespace penstock {

/// The parts of one reply, without the routing id.
using reply_parts = std::vector<zmq::message_t>;

/// Of all parts together.
[[nodiscard]] std::size_t bytes_of(const reply_parts& parts) noexcept;
/// Lets `into` be the same reply; both share its bytes. `from` is not changed, though libzmq wants to mark it.
void share(reply_parts& from, reply_parts& into);

}  // namespace penstock

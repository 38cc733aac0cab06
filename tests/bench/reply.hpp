#pragma once

#include <cstddef>
#include <optional>

#include <zmq.hpp>

#include "proto/message.hpp"

namespace penstock::bench {

/// What came back: a RESULT, or the echo of a SUBMIT.
struct reply {
  wire::message_header header;
  std::size_t payload_bytes = 0;  ///< in parts of their own, or behind the headers
};

/// Whether the daemon sends it unasked: that it has been reloaded, or to see whether its client is still there.
[[nodiscard]] inline bool is_unasked(const reply& what) noexcept {
  return what.header.type == wire::message_type::welcome || what.header.type == wire::message_type::pong;
}

/// The next one; nullopt when none comes in the socket's time. Throws std::runtime_error when it can't be read.
[[nodiscard]] std::optional<reply> receive_reply(zmq::socket_t& from);

}  // namespace penstock::bench

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <zmq.hpp>

namespace penstock::live {

// What the ZeroMQ sockets of sources and of sinks have in common. Thread: the socket's.

/// What a message holds behind its topic, which is a part of its own and may be missing.
enum class zmq_framing : std::uint8_t {
  raw,            ///< one part: numbers
  gnuradio_tags,  ///< one part: GNU Radio's header with tags, then numbers
  penstock,       ///< a SUBMIT, RESULT or PUBLISHED of Penstock's protocol, of which the first tensor is read
};

/// Has libzmq notice within a minute that a peer is gone, and connect again within a second of its return. Call it
/// before the socket is bound or connected. Throws zmq::error_t.
void keep_connected(zmq::socket_t& socket);
/// Returns the endpoints as bound, with real ports. Throws std::runtime_error; what() names the endpoint.
[[nodiscard]] std::vector<std::string> bind_all(zmq::socket_t& socket, const std::vector<std::string>& endpoints);
/// Throws std::runtime_error; what() names the endpoint.
void connect_all(zmq::socket_t& socket, const std::vector<std::string>& endpoints);

}  // namespace penstock::live

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <zmq.hpp>

#include "daemon/ingress/payload_store.hpp"
#include "daemon/socket/connection_meter.hpp"
#include "daemon/socket/message_store.hpp"
#include "daemon/socket/router_socket.hpp"

namespace penstock {

/// One message as it came from a client. Its bytes are valid until the next `receive`.
struct incoming {
  std::string_view identity;        ///< the client's ZeroMQ routing id
  std::span<const std::byte> head;  ///< part 0: header and tensor headers, at any alignment
  /// A tensor's bytes, or a control message's JSON: part 1, or the end of part 0 of a SUBMIT that has no other.
  std::span<const std::byte> body;
  std::size_t parts = 0;              ///< without the routing id
  connection_name connection;         ///< that it came over
  std::size_t bytes = 0;              ///< of the body, and of parts beyond it
  const std::string* user = nullptr;  ///< of one that has waited: what ingress::user was; nullptr: still is
};

/// Takes messages off the socket without blocking, and has the payloads of requests that wait for a slot kept. The
/// payload stays where libzmq received it: it is copied once, into a slot, or used there. Thread: the shard.
class ingress : public payload_store {
 public:
  ingress(router_socket& from, message_store& kept) : from_(from), parked_(kept) {}

  /// The next message, nullopt when there is none. Parts beyond those that a message can have are counted and let go.
  [[nodiscard]] std::optional<incoming> receive();

  /// With whose key the message just received came, its text in Z85; "" without keys.
  [[nodiscard]] std::string user() const;
  /// Keeps the body of the message just received under `place` (request::index), and the headers before it in its part.
  void park(const incoming& what, std::uint32_t place);
  [[nodiscard]] std::span<std::byte> parked(std::uint32_t place) noexcept override { return parked_.bytes(place); }
  void unpark(std::uint32_t place) noexcept override { parked_.drop(place); }

 private:
  router_socket& from_;
  message_store& parked_;
  zmq::message_t identity_;
  std::array<zmq::message_t, 2> kept_;
  zmq::message_t surplus_;
};

}  // namespace penstock

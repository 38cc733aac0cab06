#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <zmq.hpp>

#include "daemon/ingress/payload_store.hpp"
#include "daemon/socket/router_socket.hpp"

namespace penstock {

/// One message as it came from a client. Its bytes are valid until the next `receive`.
struct incoming {
  std::string_view identity;        ///< the client's ZeroMQ routing id
  std::span<const std::byte> head;  ///< part 0: header and tensor headers, at any alignment
  std::span<const std::byte> body;  ///< part 1: a tensor's bytes, or a control message's JSON
  std::size_t parts = 0;            ///< without the routing id
  std::size_t bytes = 0;            ///< of all parts but part 0
};

/// Takes messages off the socket without blocking, and keeps the payloads of requests that wait for a slot. The
/// payload stays where libzmq received it: it is copied once, into a slot, or read there. Thread: the shard.
class ingress : public payload_store {
 public:
  explicit ingress(router_socket& from) : from_(from) {}

  /// The next message, nullopt when there is none. Parts beyond those that a message can have are counted and let go.
  [[nodiscard]] std::optional<incoming> receive();

  /// Keeps the body of the message just received under `place` (request::index).
  void park(std::uint32_t place);
  [[nodiscard]] std::span<const std::byte> parked(std::uint32_t place) const noexcept override;
  void unpark(std::uint32_t place) noexcept override;

 private:
  static constexpr std::size_t usual_places = 256;  // more when more requests wait

  router_socket& from_;
  zmq::message_t identity_;
  std::array<zmq::message_t, 2> kept_;
  zmq::message_t surplus_;
  std::vector<zmq::message_t> parked_ = std::vector<zmq::message_t>(usual_places);
};

}  // namespace penstock

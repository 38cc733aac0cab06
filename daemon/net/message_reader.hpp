#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <zmq.hpp>

#include "daemon/net/connection_limits.hpp"
#include "daemon/net/router_socket.hpp"
#include "daemon/request/payload_store.hpp"

namespace penstock {

/// A message as it came from a client. Its bytes are valid until the next `receive`.
struct incoming {
  std::string_view identity;        ///< ZeroMQ routing id of the client
  std::span<const std::byte> head;  ///< part 0: header and tensor headers, at any alignment
  /// A tensor's bytes, or a control message's JSON: part 1, or the end of part 0 if a SUBMIT has only that.
  std::span<const std::byte> body;
  std::size_t parts = 0;  ///< without the routing id
  /// The bytes of the tensors after the first, a part each; of more than max_tensors, not all.
  std::span<const zmq::message_t> more{};
  connection_name connection;  ///< over which it came
  std::size_t bytes = 0;       ///< of all parts after part 0, or of the end of part 0
  /// It came from this process, over inproc://: a source sent it.
  [[nodiscard]] bool within_process() const noexcept { return connection.descriptor < 0; }
  const std::string* user = nullptr;  ///< of a deferred message: what message_reader::user returned when it came
};

/// Takes messages off the socket without blocking. A payload stays in libzmq's buffer until it is copied into a slot,
/// or the message moves to the payload store. Thread: the shard.
class message_reader {
 public:
  message_reader(router_socket& socket, payload_store& payloads) : socket_(socket), payloads_(payloads) {}

  /// The next message, or nullopt. Parts that are more than tensors can be are counted and freed.
  [[nodiscard]] std::optional<incoming> receive();
  /// The public key of the connection that the last message came over, in Z85; "" without keys.
  [[nodiscard]] std::string user() const;
  /// Puts the payloads of all parts of the last message into its body, one straight behind the other.
  void join_payloads(incoming& message);
  /// Moves the body of the last message into the payload store, under request::index.
  void keep_payload(const incoming& message, std::uint32_t index);

 private:
  [[nodiscard]] zmq::message_t& further_part(std::size_t number);

  router_socket& socket_;
  payload_store& payloads_;
  zmq::message_t identity_;
  std::array<zmq::message_t, 2> parts_;
  std::vector<zmq::message_t> more_;  // the parts behind them, as far as messages have had any
  std::size_t further_ = 0;           // of the last message
  zmq::message_t surplus_;
};

}  // namespace penstock

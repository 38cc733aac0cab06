#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>
#include <zmq.hpp>

#include "proto/control.hpp"
#include "proto/message.hpp"

namespace penstock::testing {

/// One message as it came, parts copied out.
struct raw_message {
  wire::message_header header;
  std::vector<std::string> parts;
  /// What lies behind the headers of part 0.
  [[nodiscard]] std::string behind() const {
    return parts.front().substr(header.header_len + header.tensors * wire::tensor_header_bytes);
  }
  [[nodiscard]] nlohmann::json json() const { return nlohmann::json::parse(parts.at(1)); }
};

/// A DEALER that speaks the wire by hand, rightly or wrongly.
class raw_peer {
 public:
  explicit raw_peer(const std::string& endpoint);

  /// Sends parts as they are.
  void send(const std::vector<std::string>& parts);
  void send_control(wire::message_type type, std::uint64_t request_id, const std::string& body = "");
  /// The next message, nullopt when none comes in time. The daemon's GOODBYE is answered and never
  /// given, nor is its look at the connection.
  [[nodiscard]] std::optional<raw_message> receive(std::chrono::milliseconds patience = std::chrono::seconds{20});
  /// Takes in what has come, for `receive` to give.
  void take_in();
  /// HELLO, which says up to how many bytes a RESULT may have in one part, and may show a token; the WELCOME that comes
  /// back, or an exception.
  wire::welcome hello(std::uint64_t inline_bytes = 0, const std::string& token = "");
  /// The daemon's counters.
  [[nodiscard]] nlohmann::json status();

 private:
  [[nodiscard]] std::optional<raw_message> next_from_socket(std::chrono::milliseconds patience);

  zmq::context_t context_{1};
  zmq::socket_t socket_{context_, zmq::socket_type::dealer};
  std::deque<raw_message> taken_in_;
};

/// A header as bytes.
[[nodiscard]] std::string bytes_of(const wire::message_header& header);
[[nodiscard]] std::string bytes_of(const wire::tensor_header& header);

/// A SUBMIT, right unless the test changes something.
struct raw_submit {
  wire::message_header header;
  wire::tensor_header tensor;
  std::string payload;

  /// `frames` frames of `frame` elements of u8 pairs (cu8), every byte `fill`.
  static raw_submit of_iq(std::uint64_t request_id, std::uint32_t pipeline, std::uint32_t frames, std::int64_t samples,
                          char fill);
  [[nodiscard]] std::vector<std::string> parts() const { return {bytes_of(header) + bytes_of(tensor), payload}; }
  [[nodiscard]] std::vector<std::string> in_one_part() const { return {bytes_of(header) + bytes_of(tensor) + payload}; }
};

}  // namespace penstock::testing

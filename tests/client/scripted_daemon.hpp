#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include <penstock/client.hpp>
#include <zmq.hpp>

#include "proto/control.hpp"
#include "proto/message.hpp"
#include "tests/client/scripted_arena.hpp"

namespace penstock::test {

/// What a client sent: part 0 decoded, and every part as it came.
struct received {
  std::string from;  ///< the routing id
  wire::message_header header;
  std::vector<std::string> parts;
};

/// The daemon's end of the wire, played by the test, message by message. It waits for what it expects, at most 20
/// seconds, and throws std::runtime_error when something else comes. Thread: one at a time.
class scripted_daemon {
 public:
  scripted_daemon();

  [[nodiscard]] std::string url() const { return url_; }
  /// What `greet` answers. One pipeline "double": input u8[4], outputs "twice" i16[4] and "sum" f32[1].
  wire::welcome& offer() noexcept { return offer_; }

  /// The next message, whatever it is.
  [[nodiscard]] received next();
  /// The next message, which must be of that type.
  [[nodiscard]] received expect(wire::message_type type);
  /// The next message of that type, after others.
  [[nodiscard]] received await(wire::message_type type);
  /// Expects HELLO and answers it. The HELLO.
  received greet();
  /// The answer to HELLO.
  void welcome(const received& hello);

  void answer_pings(int count);
  /// A message without a body.
  void answer(const received& to, wire::message_type type);
  /// The right RESULT to a SUBMIT of "double".
  void result(const received& to);
  void error(const received& to, wire::status code, const wire::error_body& why = {"because", "", "", ""});
  /// SEQUENCE_GAP.
  void gap(const received& to, std::uint64_t expected);
  /// Hands the arena over with the next ATTACH, after others.
  void share(scripted_arena& what);
  /// The answer to ATTACH.
  void attached(const received& to, const wire::attached& where);
  /// The right RESULT_SHARED to a SUBMIT_SHARED of "double", whose outputs are written into the arena.
  void shared_result(const received& to, const scripted_arena& in);
  /// Its one part; the outputs are written.
  [[nodiscard]] static std::vector<std::string> shared_result_parts(const received& to, const scripted_arena& in);
  /// An ERROR after which the place in the arena stays the daemon's.
  void error_that_holds(const received& to, wire::status code) { error(to, code, {"because", "", "", "", true}); }
  void release(const received& to) { answer(to, wire::message_type::released); }
  /// The answer to OPEN.
  void opened(const received& to, std::uint32_t session, std::uint64_t next_sequence = 0);
  void send(const std::string& to, const std::vector<std::string>& parts);

  /// Goes away, as a daemon that crashes does, and comes back under the same address with another instance.
  void restart();
  /// Ends every connection; clients find it under the same address, and what they had with it.
  void break_connections();
  void stop();
  void start();

  /// A client that connects to this, while this greets it; no HELLO of it is left to be read.
  [[nodiscard]] std::unique_ptr<client> connect(client_options options);

 private:
  zmq::context_t context_;
  zmq::socket_t router_;
  std::string url_;
  wire::welcome offer_;
};

/// The token that a HELLO shows, "" for none.
[[nodiscard]] std::string token_of(const received& hello);

/// Part 0 of a message that is only a header.
[[nodiscard]] std::string header_part(const wire::message_header& header);
/// Part 0 of a data message.
[[nodiscard]] std::string header_part(wire::message_header header, const std::vector<wire::tensor_header>& tensors);
/// Part 1 of a SUBMIT_SHARED. Throws std::runtime_error when it is none.
[[nodiscard]] wire::shared_place place_of(const received& submit);
/// The payload of a SUBMIT, in a part of its own or behind its headers.
[[nodiscard]] std::string payload_of(const received& submit);
/// The parts of the right RESULT to a SUBMIT of "double".
[[nodiscard]] std::vector<std::string> result_parts(const received& to);
/// The same as one part.
[[nodiscard]] std::vector<std::string> in_one_part(const std::vector<std::string>& parts);

/// Options that are quick to retry, and patient otherwise.
[[nodiscard]] client_options quick_options();
/// Frames of "double": `frames` × 4 bytes that count up from `first`.
[[nodiscard]] std::vector<std::byte> counting_bytes(std::size_t frames, std::uint8_t first = 1);

}  // namespace penstock::test

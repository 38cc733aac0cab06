#pragma once

#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <penstock/client.hpp>
#include <zmq.hpp>

#include "base/descriptors.hpp"
#include "proto/control.hpp"
#include "proto/message.hpp"

namespace penstock::test {

/// Anonymous memory, sealed like the daemon's unless `sealed` is false.
[[nodiscard]] file_descriptor make_memory(std::size_t bytes, bool sealed = true);

/// The daemon's side of shared memory: a Unix socket and one arena. Waits at most 20 s for the client, then throws
/// std::runtime_error. Not thread-safe.
class scripted_arena {
 public:
  static constexpr std::size_t usual_bytes = std::size_t{1} << 16U;
  explicit scripted_arena(std::uint32_t number = 3, std::size_t bytes = usual_bytes);
  scripted_arena(const scripted_arena&) = delete;
  scripted_arena& operator=(const scripted_arena&) = delete;
  ~scripted_arena();

  /// The body of ATTACHED.
  [[nodiscard]] wire::attached attached() const { return {"@" + name_, ticket_}; }
  [[nodiscard]] std::uint32_t number() const noexcept { return number_; }
  [[nodiscard]] std::span<std::byte> memory() const noexcept { return memory_; }

  /// Accepts the client, checks its ticket and sends the memory.
  void hand_over();
  /// The same with another answer; a negative descriptor is not sent.
  void answer(const std::string& bytes, int descriptor);
  /// Sends more bytes after an answer.
  void add(const std::string& bytes);
  [[nodiscard]] std::string right_answer() const;
  /// Accepts the client and closes the connection.
  void turn_away();
  void end_lease();
  /// Waits until the client has ended the lease.
  void await_end_of_lease();

 private:
  void let_in();

  std::uint32_t number_;
  std::string name_;
  std::string ticket_;
  file_descriptor listener_;
  file_descriptor lease_;
  file_descriptor descriptor_;
  std::span<std::byte> memory_;
};

/// A message of a client: the decoded header and all parts.
struct received {
  std::string peer;  ///< the routing id
  wire::message_header header;
  std::vector<std::string> parts;
};

/// A daemon that the test plays, message by message. Waits at most 20 s for a message, and throws std::runtime_error
/// when another one comes. Not thread-safe.
class scripted_daemon {
 public:
  scripted_daemon();

  [[nodiscard]] std::string url() const { return url_; }
  /// The WELCOME of `greet`, with one pipeline "double": input u8[4], outputs "twice" i16[4] and "sum" f32[1].
  wire::welcome& offer() noexcept { return offer_; }

  /// The next message.
  [[nodiscard]] received next();
  /// The next message, which must be of that type.
  [[nodiscard]] received expect(wire::message_type type);
  /// The next message of that type; skips others.
  [[nodiscard]] received await(wire::message_type type);
  /// Expects HELLO and answers it. Returns the HELLO.
  received greet();
  /// Answers HELLO.
  void welcome(const received& hello);

  void answer_pings(int count);
  /// Answers with a message without a body.
  void answer(const received& request, wire::message_type type);
  /// Answers a SUBMIT of "double" with the right RESULT.
  void result(const received& request);
  void error(const received& request, wire::status code, const wire::error_body& body = {"because", "", "", ""});
  /// Answers with SEQUENCE_GAP.
  void gap(const received& request, std::uint64_t expected);
  /// Answers the next ATTACH, skipping other messages, and hands the arena over.
  void share(scripted_arena& arena);
  /// Answers ATTACH.
  void attached(const received& request, const wire::attached& attached);
  /// Answers a SUBMIT_SHARED of "double" with the right RESULT_SHARED, and writes the outputs into the arena.
  void shared_result(const received& request, const scripted_arena& arena);
  /// The part of that answer; writes the outputs.
  [[nodiscard]] static std::vector<std::string> shared_result_parts(const received& request,
                                                                    const scripted_arena& arena);
  /// Answers with an ERROR that keeps the request's memory in the arena.
  void error_that_holds(const received& request, wire::status code) {
    error(request, code, {"because", "", "", "", true});
  }
  void release(const received& request) { answer(request, wire::message_type::released); }
  /// Answers OPEN.
  void opened(const received& request, std::uint32_t session, std::uint64_t next_sequence = 0);
  void send(const std::string& request, const std::vector<std::string>& parts);

  /// Restarts like a crashed daemon: same address, another instance.
  void restart();
  /// Breaks all connections; address and state stay.
  void break_connections();
  void stop();
  void start();

  /// A client that is connected and welcomed; none of its HELLOs is left unread.
  [[nodiscard]] std::unique_ptr<client> connect(client_options options);

 private:
  zmq::context_t context_;
  zmq::socket_t router_;
  std::string url_;
  wire::welcome offer_;
};

/// The token in a HELLO; "" = none.
[[nodiscard]] std::string token_of(const received& hello);

/// Part 0 of a message without tensors.
[[nodiscard]] std::string header_part(const wire::message_header& header);
/// Part 0 of a data message.
[[nodiscard]] std::string header_part(wire::message_header header, const std::vector<wire::tensor_header>& tensors);
/// Part 1 of a SUBMIT_SHARED. Throws std::runtime_error when it is malformed.
[[nodiscard]] wire::shared_place place_of(const received& submit);
/// The payload of a SUBMIT, from its own part or behind the headers.
[[nodiscard]] std::string payload_of(const received& submit);
/// The parts of the right RESULT to a SUBMIT of "double".
[[nodiscard]] std::vector<std::string> result_parts(const received& request);
/// The same as one part.
[[nodiscard]] std::vector<std::string> in_one_part(const std::vector<std::string>& parts);

/// Options with short retry times and long timeouts.
[[nodiscard]] client_options quick_options();
/// Frames of "double": `frames` × 4 bytes that count up from `first`.
[[nodiscard]] std::vector<std::byte> counting_bytes(std::size_t frames, std::uint8_t first = 1);

}  // namespace penstock::test

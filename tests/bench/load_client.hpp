#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <zmq.hpp>

#include "proto/message.hpp"

namespace penstock::bench {

/// An encoded SUBMIT of f32 values that is sent again and again with other ids. As in the clients, a small payload lies
/// behind the headers and a larger one is a message part of its own.
class submit_message {
 public:
  /// `frames` frames of `floats` random values each, normally distributed, for pipeline `pipeline`.
  submit_message(std::uint32_t pipeline, std::size_t floats, std::uint32_t frames = 1);

  void set_id(std::uint64_t id) noexcept;
  void set_timeout(std::chrono::nanoseconds timeout) noexcept;
  void set_session(std::uint32_t session) noexcept;
  void set_sequence(std::uint64_t sequence) noexcept;
  /// Makes it a SUBMIT_SHARED of the frames at `place`.
  void set_place(const wire::shared_place& place);
  /// ZeroMQ does not copy payloads of 64 KiB and more. Throws std::runtime_error after the socket's ZMQ_SNDTIMEO.
  void send(zmq::socket_t& socket) const;
  /// Size of the frames, and of the result.
  [[nodiscard]] std::size_t payload_bytes() const noexcept { return payload_bytes_; }

 private:
  std::size_t payload_bytes_;
  std::string head_;     // headers, and a small payload behind them
  std::string payload_;  // a larger payload; else empty
};

/// The two parts of HELLO.
[[nodiscard]] std::string hello_head();
[[nodiscard]] std::string hello_body();

/// A RESULT or an ERROR, or the echo of a SUBMIT.
struct reply {
  wire::message_header header;
  std::size_t payload_bytes = 0;  ///< in message parts of its own or behind the headers
};

/// True for what the daemon sends on its own: WELCOME after a reload, and keep-alives.
[[nodiscard]] inline bool is_unsolicited(const reply& message) noexcept {
  return message.header.type == wire::message_type::welcome || message.header.type == wire::message_type::pong;
}

/// The next reply; nullopt after the socket's ZMQ_RCVTIMEO. Throws std::runtime_error if it cannot be decoded.
[[nodiscard]] std::optional<reply> receive_reply(zmq::socket_t& socket);

/// Figures of one run.
struct load_result {
  double requests_per_second = 0;
  double p50_us = 0;
  double p99_us = 0;
  std::size_t results = 0;
};

/// One connection that keeps a number of SUBMITs of one size in flight. The server is a daemon or an echo.
/// Thread: the caller's, one at a time.
class load_client {
 public:
  /// Requests of `floats` random f32 values. `hello`: send HELLO first. `identity`: the routing id, "" for any.
  load_client(const std::string& endpoint, std::uint32_t pipeline, std::size_t floats, bool hello,
              const std::string& identity = "");

  /// Sets the timeout of the requests that follow.
  void limit_requests(std::chrono::nanoseconds timeout) noexcept { message_.set_timeout(timeout); }
  /// The requests that follow belong to a new session. Throws std::runtime_error if the daemon opens none.
  void open_session();
  /// The requests that follow all use the frame at `place` in shared memory.
  void share(const wire::shared_place& place);

  /// Keeps `in_flight` requests in flight until `requests` are answered or `limit` has passed, then waits for the rest.
  /// Throws std::runtime_error on a reply that is not a RESULT (or an echo) of the right size.
  load_result run(std::size_t in_flight, std::size_t requests, std::chrono::milliseconds limit);

 private:
  using clock = std::chrono::steady_clock;

  void greet();
  void send();
  void receive();

  zmq::context_t context_{1};
  zmq::socket_t socket_{context_, zmq::socket_type::dealer};
  submit_message message_;
  std::uint32_t pipeline_;
  bool shares_ = false;
  std::uint64_t next_id_ = 1;
  std::uint64_t next_sequence_ = 0;
  bool in_session_ = false;
  std::vector<clock::time_point> sent_at_;  // index: id modulo size
  std::vector<double> latencies_us_;
};

}  // namespace penstock::bench

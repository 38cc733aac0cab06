#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include <zmq.hpp>

#include "proto/message.hpp"

namespace penstock::bench {

/// A SUBMIT of f32 values, written by hand and sent over and over under other ids. As clients do, it has a small
/// payload behind its headers and a larger one in a part of its own.
class submit_message {
 public:
  /// `frames` frames of `floats` random values each, normally distributed, for pipeline `pipeline`.
  submit_message(std::uint32_t pipeline, std::size_t floats, std::uint32_t frames = 1);

  void set_id(std::uint64_t id) noexcept;
  void set_timeout(std::chrono::nanoseconds timeout) noexcept;
  void set_session(std::uint32_t session) noexcept;
  void set_sequence(std::uint64_t sequence) noexcept;
  /// From now on it is a SUBMIT_SHARED of frames in that place.
  void set_place(const wire::shared_place& place);
  /// Of frames of 64 KiB and more ZeroMQ takes the bytes where they lie: they stay as they are. Throws
  /// std::runtime_error when the socket's time to send (ZMQ_SNDTIMEO) ends first.
  void send(zmq::socket_t& to) const;
  /// Of its frames; its result has as many.
  [[nodiscard]] std::size_t payload_bytes() const noexcept { return payload_bytes_; }

 private:
  std::size_t payload_bytes_;
  std::string head_;     // with a small payload behind it
  std::string payload_;  // in a part of its own, where it has one
};

/// HELLO's two parts.
[[nodiscard]] std::string hello_head();
[[nodiscard]] std::string hello_body();

}  // namespace penstock::bench

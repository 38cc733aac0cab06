#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <zmq.hpp>

namespace penstock {

/// Owns the messages of requests that wait for a slot, and of those that operators process in the message itself; by
/// request::index. Nobody else refers to the bytes, so the device may overwrite them. Thread: the shard; the device
/// reads and writes the bytes.
class payload_store {
 public:
  /// Replaces the message at `index`. Its first `offset` bytes are not part of the payload.
  void keep(std::uint32_t index, zmq::message_t&& message, std::size_t offset = 0);
  /// The payload at `index`, empty if there is none. The bytes do not move until it is taken or dropped.
  [[nodiscard]] std::span<std::byte> bytes(std::uint32_t index) noexcept;
  /// Moves the payload out as a message; empty if there is none. Copies the payload if its offset is not 0.
  [[nodiscard]] zmq::message_t take(std::uint32_t index);
  /// Frees the message, if there is one.
  void drop(std::uint32_t index) noexcept;

 private:
  static constexpr std::size_t initial_size = 256;  // grows if more requests wait

  struct entry {
    zmq::message_t message;
    std::size_t offset = 0;
  };

  std::vector<entry> entries_ = std::vector<entry>(initial_size);
};

}  // namespace penstock

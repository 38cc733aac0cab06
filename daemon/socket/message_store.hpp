#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <zmq.hpp>

namespace penstock {

/// Messages that were received and are not done with, each at a place of its own (request::index). Nobody else has
/// their bytes, which may be written to. Thread: the shard; the bytes themselves also the device's.
class message_store {
 public:
  /// In place of what was there. What lies before `from` is not part of it.
  void keep(std::uint32_t place, zmq::message_t&& message, std::size_t from = 0);
  /// Of what is kept there; they do not move until it is taken.
  [[nodiscard]] std::span<std::byte> bytes(std::uint32_t place) noexcept;
  /// Gives it away, as a message of nothing else; an empty one where there is none. Copies what is not a whole message.
  [[nodiscard]] zmq::message_t take(std::uint32_t place);
  /// Lets go of it, where there is one.
  void drop(std::uint32_t place) noexcept;

 private:
  static constexpr std::size_t usual_places = 256;  // more when more requests wait

  struct entry {
    zmq::message_t message;
    std::size_t from = 0;
  };

  std::vector<entry> kept_ = std::vector<entry>(usual_places);
};

}  // namespace penstock

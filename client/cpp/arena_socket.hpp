#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "client/cpp/arena.hpp"
#include "client/cpp/file_descriptor.hpp"
#include "proto/control.hpp"

namespace penstock::link {

/// The Unix connection over which an arena is fetched. The daemon shares it for as long as the connection stands.
/// Nothing here waits. Thread: the connection's.
class arena_socket {
 public:
  /// Throws std::runtime_error when the address or the ticket is none.
  explicit arena_socket(const wire::attached& where);
  /// Ends the connection, also where a forked child has it too.
  ~arena_socket();
  arena_socket(const arena_socket&) = delete;
  arena_socket& operator=(const arena_socket&) = delete;

  /// Connects, shows the ticket and takes the answer, as far as that can be done now. The arena once it is there.
  /// Throws std::runtime_error when there will be none.
  [[nodiscard]] std::shared_ptr<arena> fetch();
  /// Of a fetched one: whether the connection has ended.
  [[nodiscard]] bool ended() const noexcept;

  /// To be polled for reading; -1 while there is no connection, which has to be tried again.
  [[nodiscard]] int descriptor() const noexcept { return connected_ ? socket_.number() : -1; }

 private:
  [[nodiscard]] bool connect();
  /// Whether all of the answer is there.
  [[nodiscard]] bool receive();

  static constexpr std::size_t answer_bytes = 16;

  std::string path_;  ///< as bind and connect take it
  std::string ticket_;
  file_descriptor socket_;
  bool connected_ = false;
  std::array<std::byte, answer_bytes> answer_{};
  std::size_t received_ = 0;
  file_descriptor memory_;
};

}  // namespace penstock::link

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <sys/socket.h>

#include "base/descriptors.hpp"

namespace penstock {

/// The process that made a Unix connection. The connection may outlive it: a child that it forked holds it too.
struct peer_process {
  /// The process at the other end of `connection`.
  [[nodiscard]] static peer_process from_connection(int connection) noexcept;

  /// Readable once it has ended. Empty where the kernel can't say (before 5.3), where it can't be seen from here
  /// (before 6.5, in another namespace), and when it is gone.
  file_descriptor descriptor;
  bool gone = false;
};

class client_arena;

/// One connection to the server's Unix socket: the client shows a ticket and gets an arena; the lease ends with the
/// connection, or with the process that made it. It lives as long as it waits for something. Thread: the server's.
class arena_lease : public std::enable_shared_from_this<arena_lease> {
 public:
  using socket = boost::asio::local::stream_protocol::socket;
  /// Called at most once each: with the 32 bytes of the ticket, and when the lease has ended.
  struct events {
    std::function<void(arena_lease&, std::string_view ticket)> shown;
    std::function<void(arena_lease&)> ended;
  };

  arena_lease(socket peer, events callbacks);

  void wait_for_ticket();
  /// Sends the arena. False when that fails: the lease then ends.
  [[nodiscard]] bool give(const client_arena& arena);
  void end();

  /// The process at the other end, for the log: "process 4711 of user 1000".
  [[nodiscard]] std::string peer() const;
  /// The user id of that process; -1 where the kernel does not say.
  [[nodiscard]] std::uint32_t user() const noexcept { return credentials_.uid; }

 private:
  void wait_for_end();
  void watch_process();

  socket peer_;
  const ucred credentials_;
  boost::asio::posix::stream_descriptor process_;  ///< open while it is watched
  events callbacks_;
  boost::asio::steady_timer patience_;
  std::array<char, 32> ticket_{};
  std::array<char, 1> nothing_{};
  bool shown_ = false;  // the ticket has come
  bool ended_ = false;
};

/// Connections that have shown no valid ticket yet. Anybody can connect, so their number is bounded, of each user and
/// in all; the oldest is evicted. A client shows its ticket at once. Thread: the server's.
class pending_peers {
 public:
  static constexpr std::size_t most = 64;
  static constexpr std::size_t most_of_a_user = 16;

  /// The connection to end before one more of that user is added; nullptr while there is room. When all places are
  /// taken it is one of the user that has the most. It stays until `remove`.
  [[nodiscard]] arena_lease* surplus(std::uint32_t user) const;
  void add(arena_lease& lease, std::uint32_t user);
  /// The lease has shown a valid ticket, or has ended. No change for one that is not here.
  void remove(const arena_lease& lease) noexcept;

 private:
  struct pending_peer {
    arena_lease* lease;
    std::uint32_t user;
  };
  [[nodiscard]] std::size_t count(std::uint32_t user) const noexcept;
  [[nodiscard]] arena_lease* oldest_of(std::uint32_t user) const noexcept;

  std::vector<pending_peer> pending_;  ///< in the order in which they came
};

}  // namespace penstock

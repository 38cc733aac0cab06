#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <sys/socket.h>

namespace penstock {

class client_arena;

/// One connection to the keeper's Unix socket: a ticket comes, an arena goes, and when the connection or the process
/// that made it ends so does the lease. It lives as long as it has something to wait for. Thread: the keeper's.
class arena_lease : public std::enable_shared_from_this<arena_lease> {
 public:
  using socket = boost::asio::local::stream_protocol::socket;
  /// Called at most once each: with the 32 bytes that came, and when the lease has ended.
  struct events {
    std::function<void(arena_lease&, std::string_view ticket)> shown;
    std::function<void(arena_lease&)> ended;
  };

  arena_lease(socket peer, events tell);

  void wait_for_ticket();
  /// Sends the arena. False when it can't; the lease then ends.
  [[nodiscard]] bool give(const client_arena& what);
  void end();

  /// The process at the other end, for the log: "process 4711 of user 1000".
  [[nodiscard]] std::string peer() const;
  /// Whose process that is; one that there is not, where the kernel does not say.
  [[nodiscard]] std::uint32_t user() const noexcept { return who_.uid; }

 private:
  void wait_for_end();
  void watch_process();

  socket peer_;
  const ucred who_;
  boost::asio::posix::stream_descriptor process_;  ///< open while it is watched
  events tell_;
  boost::asio::steady_timer patience_;
  std::array<char, 32> ticket_{};
  std::array<char, 1> nothing_{};
  bool shown_ = false;  // the ticket has come
  bool ended_ = false;
};

}  // namespace penstock

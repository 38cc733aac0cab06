#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/memory_budget.hpp"
#include "base/unix_listener.hpp"
#include "daemon/config/settings.hpp"
#include "daemon/shm/lease.hpp"
#include "daemon/shm/segment.hpp"
#include "daemon/shm/tickets.hpp"

namespace penstock {

/// Memory that clients share with the daemon now. An arena counts until its last request is done, its bytes until the
/// client has unmapped it.
struct shared_memory_use {
  std::size_t arenas = 0;
  std::size_t bytes = 0;         ///< of the host's memory
  std::size_t device_bytes = 0;  ///< of device memory; what a client keeps mapped after its lease is not seen
};

/// The shards, as the server of shared memory sees them. Called on the server's thread; the work is done on the
/// shard's.
class arena_registry {
 public:
  arena_registry() = default;
  arena_registry(const arena_registry&) = delete;
  arena_registry& operator=(const arena_registry&) = delete;
  virtual ~arena_registry() = default;

  /// The device of that shard.
  [[nodiscard]] virtual device& device_of(std::uint32_t shard) = 0;
  /// Gives the arena's first use to the client that ordered it. `done(admitted)` is called on the shard's thread, or
  /// never if the shard has ended. False: the client is gone, and the use was dropped.
  virtual void admit(const arena_order& order, client_arena& arena, std::function<void(bool)> done) = 0;
  /// No client of the shard may name that arena any more.
  virtual void evict(std::uint32_t shard, std::uint32_t arena) = 0;
};

/// Lends memory to clients on this machine, and takes it back when their connection has ended and the last request in
/// it is done. It has a thread of its own, because making and pinning memory takes milliseconds.
class shm_server final : public arena_owner {
 public:
  /// Listens at once. The registry must live until `stop`, the devices and the memory longer than this object. Throws
  /// std::runtime_error when it can't listen.
  shm_server(const shared_memory_settings& settings, const security_settings& access, arena_registry& registry,
             memory_budget& memory);
  /// Frees what is still lent: nobody uses it any more.
  ~shm_server() override;

  static constexpr std::size_t most_of_a_client = 16;

  /// Accepts connections from here on.
  void start();
  /// Ends every lease and the thread. The registry is not called any more.
  void stop() noexcept;

  /// Runs the task on the server's thread, later. Threads: any.
  void ask(std::function<void()> task);
  /// Threads: any.
  [[nodiscard]] std::size_t max_client_bytes() const noexcept { return settings_.max_client_bytes; }
  /// The same of device memory: 0 where none is shared. A device that exports none shares none either.
  [[nodiscard]] std::size_t max_client_device_bytes() const noexcept {
    return std::min(settings_.max_client_bytes, settings_.max_device_bytes);
  }
  /// As ATTACHED says it: a path, or "@" and a name.
  [[nodiscard]] const std::string& socket() const noexcept { return socket_; }
  /// A ticket for an arena; "" when max_bytes or max_device_bytes is reached, or too many tickets are out. Threads:
  /// any.
  [[nodiscard]] std::string issue(arena_order order);
  [[nodiscard]] shared_memory_use in_use() const noexcept;
  void take_back(client_arena& unused) noexcept override;

 private:
  struct loan {
    std::unique_ptr<client_arena> arena;
    std::uint32_t shard = 0;
    std::string client;
    std::weak_ptr<arena_lease> lease;
    memory_watch watch;
    memory_grant memory;
  };
  /// Memory whose lease has ended and that its client still maps.
  struct retained_memory {
    memory_watch watch;
    std::size_t bytes = 0;
    std::uint32_t shard = 0;
    std::string client;
    memory_grant memory;
    arena_memory kind = arena_memory::host;
  };

  void listen(const security_settings& access);
  void accept();
  void receive(boost::asio::local::stream_protocol::socket peer);
  void warn(const std::string& text);
  void wait_to_accept(const std::string& why);
  [[nodiscard]] std::atomic<std::size_t>& lent(arena_memory memory) noexcept {
    return memory == arena_memory::device ? device_bytes_ : bytes_;
  }
  [[nodiscard]] std::size_t left(arena_memory memory) const noexcept;
  [[nodiscard]] bool may_have(const arena_order& order) const;
  void lend(arena_lease& lease, std::string_view ticket);
  [[nodiscard]] client_arena* make(const arena_order& order, arena_lease& lease);
  void hand_over(std::uint32_t number, bool admitted);
  void evict_arena_of(const arena_lease& ended);
  void remove(std::uint32_t number);
  /// Frees what clients have unmapped; while some is left, it is called again every second.
  void check_retained();

  shared_memory_settings settings_;
  arena_registry& registry_;
  memory_budget& memory_;
  std::string socket_;
  ticket_table tickets_;
  std::optional<ipc_listener> file_;  // of a socket that has one
  std::atomic<std::size_t> arenas_{0};
  std::atomic<std::size_t> bytes_{0};
  std::atomic<std::size_t> device_bytes_{0};
  boost::asio::io_context io_{1};
  boost::asio::local::stream_protocol::acceptor acceptor_{io_};
  boost::asio::steady_timer pause_{io_};
  pending_peers pending_;
  std::unordered_map<std::uint32_t, loan> loans_;
  std::vector<retained_memory> retained_;
  boost::asio::steady_timer next_check_{io_};
  std::chrono::steady_clock::time_point warned_{};
  bool accept_fails_ = false;  // and the log says so
  std::uint32_t next_number_;
  std::thread thread_;
};

}  // namespace penstock

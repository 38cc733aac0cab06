#pragma once

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

#include "daemon/memory/memory_budget.hpp"
#include "daemon/settings/settings.hpp"
#include "daemon/shared_memory/arena_lease.hpp"
#include "daemon/shared_memory/arena_tenants.hpp"
#include "daemon/shared_memory/client_arena.hpp"
#include "daemon/shared_memory/memory_watch.hpp"
#include "daemon/shared_memory/shared_memory_use.hpp"
#include "daemon/shared_memory/ticket_office.hpp"
#include "daemon/shared_memory/waiting_room.hpp"
#include "daemon/socket/ipc_listener.hpp"

namespace penstock {

/// Lends memory to clients on this machine, and takes it back when their connection has ended and the last request in
/// it is done. One thread of its own: making and pinning memory takes milliseconds, which no shard has.
class arena_keeper final : public arena_owner {
 public:
  /// Listens at once. The tenants must outlive `stop`, the devices and the memory this object. Throws
  /// std::runtime_error when the socket can't be had.
  arena_keeper(const shared_memory_settings& how, const security_settings& access, arena_tenants& tenants,
               memory_budget& memory);
  /// Takes back what is still out: whoever used it has ended.
  ~arena_keeper() override;

  static constexpr std::size_t most_of_a_client = 16;

  /// From here on tickets are taken.
  void start();
  /// Ends every lease and the thread. Nobody is asked anything any more.
  void stop() noexcept;

  /// Has it called on the keeper's thread, later. Threads: any.
  void ask(std::function<void()> what);
  /// Threads: any.
  [[nodiscard]] std::size_t max_client_bytes() const noexcept { return how_.max_client_bytes; }
  /// As ATTACHED says it: a path, or "@" and a name.
  [[nodiscard]] const std::string& socket() const noexcept { return socket_; }
  /// A ticket for an arena; "" when there is no room for it, or none can be given just now.
  [[nodiscard]] std::string issue(arena_order what);
  [[nodiscard]] shared_memory_use in_use() const noexcept;
  void take_back(client_arena& unused) noexcept override;

 private:
  struct tenancy {
    std::unique_ptr<client_arena> arena;
    std::uint32_t shard = 0;
    std::string client;
    std::weak_ptr<arena_lease> lease;
    memory_watch watch;
    memory_grant memory;
  };
  /// Memory whose lease has ended and that its client has kept.
  struct left_behind {
    memory_watch watch;
    std::size_t bytes = 0;
    std::uint32_t shard = 0;
    std::string client;
    memory_grant memory;
  };

  void listen(const security_settings& access);
  void accept();
  void receive(boost::asio::local::stream_protocol::socket peer);
  void complain(const std::string& what);
  void wait_to_accept(const std::string& why);
  [[nodiscard]] bool may_have(const arena_order& what) const;
  void lend(arena_lease& to, std::string_view ticket);
  [[nodiscard]] client_arena* make(const arena_order& what, arena_lease& to);
  void hand_over(std::uint32_t number, bool admitted);
  void forget(const arena_lease& ended);
  void remove(std::uint32_t number);
  /// Counts what nobody has kept any more as free, and looks again soon while there is other.
  void look_at_left();

  shared_memory_settings how_;
  arena_tenants& tenants_;
  memory_budget& memory_;
  std::string socket_;
  ticket_office tickets_;
  std::optional<ipc_listener> file_;  // of a socket that has one
  std::atomic<std::size_t> arenas_{0};
  std::atomic<std::size_t> bytes_{0};
  boost::asio::io_context io_{1};
  boost::asio::local::stream_protocol::acceptor acceptor_{io_};
  boost::asio::steady_timer pause_{io_};
  waiting_room visitors_;
  std::unordered_map<std::uint32_t, tenancy> tenancies_;
  std::vector<left_behind> left_;
  boost::asio::steady_timer next_look_{io_};
  std::chrono::steady_clock::time_point complained_{};
  bool takes_nobody_ = false;  // and that is in the log
  std::uint32_t next_number_;
  std::thread thread_;
};

}  // namespace penstock

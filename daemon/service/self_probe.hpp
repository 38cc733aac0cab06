#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "daemon/net/keys.hpp"
#include "daemon/net/ping_client.hpp"
#include "daemon/service/shard_thread.hpp"

namespace penstock {

/// Finds threads of the daemon that no longer run, where no shard's report shows it. Every second it checks
///
/// - ZeroMQ's I/O threads, end to end: the daemon is a client of its own and sends PING to an endpoint of each shard,
///   with a key of its own where keys are needed. It sends no HELLO and so takes no client's place. A
///   shard with several I/O threads has twice as many of these connections: ZeroMQ gives the next connection to the
///   thread that has fewest, so that each gets some.
/// - any other thread: it runs a small function, or counts its rounds.
///
/// Thread: the admin's, whose own beat is that it answers.
class self_probe {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  static constexpr std::chrono::seconds interval{1};
  /// Without a sign for so long the daemon is not ready (late), or not alive (dead).
  static constexpr std::chrono::seconds late{5};
  static constexpr std::chrono::seconds dead{20};
  static constexpr std::chrono::seconds longest_work{600};

  /// Runs a function on the thread in question, later; perhaps after this object has gone.
  using asking = std::function<void(std::function<void()>)>;

  /// `admin` and `shards`, which serve, outlive it. `keys` may be none.
  self_probe(boost::asio::io_context& admin, std::deque<shard_thread>& shards, const keyring* keys);
  self_probe(const self_probe&) = delete;
  self_probe& operator=(const self_probe&) = delete;
  ~self_probe();

  /// Probes one shard with PINGs; before `start`. `endpoints`: where that shard listens.
  void add_shard(std::uint32_t number, const std::vector<std::string>& endpoints, int io_threads);
  /// A thread that runs functions; while `works` it may be silent for `longest_work` more.
  void add_thread(std::string name, asking ask, std::function<bool()> works = {});
  /// A thread that counts its rounds until it has ended.
  void add_rounds(std::string name, std::function<std::uint64_t()> rounds, std::function<bool()> ended);
  void start();

  /// Which threads have given no sign for longer than that; "" when all have.
  [[nodiscard]] std::string complaint(std::chrono::seconds longer_than) const;

 private:
  struct beat {
    std::string name;
    asking ask;                             // or
    std::function<std::uint64_t()> rounds;  // until:
    std::function<bool()> ended;
    std::function<bool()> works;
    std::shared_ptr<std::atomic<bool>> answered;
    std::uint64_t last_rounds = 0;
    time_point heard;
  };
  struct connection {
    std::uint32_t shard;
    std::string endpoint;
    ping_connection& link;
    bool answered = false;  // once: what never did says nothing of a thread
    bool given_up = false;  // on its first answer, which is in the log; one may still come
    time_point heard;
  };
  struct planned {
    std::uint32_t shard;
    std::string endpoint;
    int connections;
  };

  void look();
  void look_at(beat& watched, time_point now);
  void look_at(connection& watched, time_point now);
  void connect_next();

  std::deque<shard_thread>& shards_;
  const keyring* keys_;
  boost::asio::steady_timer timer_;
  ping_client client_;
  std::list<beat> beats_;
  std::list<connection> connections_;
  std::vector<planned> planned_;
  time_point give_up_{};  // on the answer of the newest connection
  std::uint64_t asked_ = 0;
};

}  // namespace penstock

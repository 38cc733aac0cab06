#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <penstock/client.hpp>

#include "client/cpp/catalogue.hpp"
#include "client/cpp/exchange.hpp"
#include "client/cpp/post_box.hpp"

namespace penstock::link {

/// The thread that talks to the daemon, and how others reach it.
class connection {
 public:
  /// Begins to connect. Throws connect_error when the url is none. `credits`, `arenas` and `counters` must live longer.
  connection(const client_options& options, credit_gate& credits, arena_slot& arenas, atomic_counters& counters);
  connection(const connection&) = delete;
  connection& operator=(const connection&) = delete;
  /// Ends everything in flight, and the thread.
  ~connection();

  /// Waits for the daemon's first welcome. Throws connect_error when it refuses, or says nothing until then.
  void wait_for_welcome(std::chrono::nanoseconds at_most);
  /// What the newest welcome said; nullptr before the first. Threads: any.
  [[nodiscard]] std::shared_ptr<const catalogue> newest() const;

  /// Hands a command to the thread; false when the connection is being closed, and `what` is as it was. Threads: any.
  [[nodiscard]] bool post(command& what);
  [[nodiscard]] bool is_own_thread() const noexcept { return std::this_thread::get_id() == thread_.get_id(); }

 private:
  void run();
  void note_move(const std::string& url);
  void note_welcome(std::shared_ptr<const catalogue> what);
  void note_refusal(const request_error& why);
  void note_shut_out(const std::string& why, bool for_good);

  std::string url_;
  post_box box_;
  mutable std::mutex mutex_;
  std::condition_variable greeted_;
  std::shared_ptr<const catalogue> newest_;
  std::optional<std::string> refusal_;
  std::string trouble_;  // with the handshake, the last; "" when there was none
  exchange exchange_;
  std::thread thread_;
};

}  // namespace penstock::link

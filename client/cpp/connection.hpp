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
  /// Unset: as client_options says.
  void wait_for_welcome(std::optional<std::chrono::nanoseconds> at_most);
  /// What the newest welcome said; nullptr before the first. Threads: any.
  [[nodiscard]] std::shared_ptr<const catalogue> newest() const;

  /// Hands a command to the thread; false when the connection is being closed, and `what` is as it was. Threads: any.
  [[nodiscard]] bool post(command& what);
  /// Why the thread has ended, if it could not go on; "" otherwise. Threads: any.
  [[nodiscard]] std::string failure() const;
  [[nodiscard]] bool is_own_thread() const noexcept { return std::this_thread::get_id() == thread_.get_id(); }

 private:
  void run() noexcept;
  void converse();
  /// Whether there is an answer, of either kind, by then.
  [[nodiscard]] bool is_answered_by(std::unique_lock<std::mutex>& lock, time_point deadline);
  void note_move(const std::string& url);
  void note_welcome(std::shared_ptr<const catalogue> what);
  void note_refusal(const request_error& why);
  void note_shut_out(const std::string& why, bool for_good);

  std::string url_;
  const bool has_keys_;
  credit_gate& credits_;
  post_box box_;
  mutable std::mutex mutex_;
  std::condition_variable greeted_;
  std::shared_ptr<const catalogue> newest_;
  std::optional<std::string> refusal_;
  std::string failure_;
  std::string trouble_;      // with the handshake, the last; "" when there was none
  unsigned broken_off_ = 0;  // handshakes, without a reason
  exchange exchange_;
  std::thread thread_;
};

}  // namespace penstock::link

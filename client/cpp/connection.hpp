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
#include "client/cpp/command_queue.hpp"
#include "client/cpp/protocol_engine.hpp"

namespace penstock::link {

/// Runs the protocol engine on a thread of its own and hands callers' commands to it.
class connection {
 public:
  /// Begins to connect. Throws connect_error for an invalid URL. The references must outlive this.
  connection(const client_options& options, credit_window& credits, published_arena& arenas, atomic_counters& counters);
  connection(const connection&) = delete;
  connection& operator=(const connection&) = delete;
  /// Ends everything in flight, then the thread.
  ~connection();

  /// Waits for the first WELCOME. Throws connect_error when the daemon refuses or does not answer within `at_most`;
  /// unset: the defaults of client_options::connect_timeout.
  void wait_for_welcome(std::optional<std::chrono::nanoseconds> at_most);
  /// The latest WELCOME; nullptr before the first. Thread: any.
  [[nodiscard]] std::shared_ptr<const catalogue> newest() const;

  /// Hands a command to the thread. False, and `next` unchanged, when the connection is closing. Thread: any.
  [[nodiscard]] bool post(command& next);
  /// Why the thread has failed; "" while it runs. Thread: any.
  [[nodiscard]] std::string failure() const;
  [[nodiscard]] bool is_own_thread() const noexcept { return std::this_thread::get_id() == thread_.get_id(); }

 private:
  void run() noexcept;
  void run_loop();
  /// Waits until the deadline. True when WELCOME or a refusal has come.
  [[nodiscard]] bool is_answered_by(std::unique_lock<std::mutex>& lock, time_point deadline);
  void note_move(const std::string& url);
  void note_welcome(std::shared_ptr<const catalogue> newest);
  void note_refusal(const request_error& reason);
  void note_handshake_failure(const std::string& reason, bool final);

  std::string url_;
  const bool has_keys_;
  credit_window& credits_;
  command_queue commands_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<const catalogue> newest_;
  std::optional<std::string> refusal_;
  std::string failure_;
  std::string handshake_failure_;   // with the handshake, the last; "" when there was none
  unsigned closed_handshakes_ = 0;  // handshakes, without a reason
  protocol_engine engine_;
  std::thread thread_;
};

}  // namespace penstock::link

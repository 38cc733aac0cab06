#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "client/cli/admin_http.hpp"
#include "client/cli/top_status.hpp"

namespace penstock::cli {

/// What came of asking once: the status, or why there is none.
struct poll_outcome {
  std::optional<daemon_status> status;
  std::string trouble{};
};

/// Asks once. Throws nothing but what the standard library does.
[[nodiscard]] poll_outcome poll_status(const admin_address& whom, std::chrono::nanoseconds timeout);

/// Asks the daemon for its status over and over on a thread of its own, so that no key waits for an answer.
class top_poller {
 public:
  top_poller(admin_address whom, std::chrono::nanoseconds interval, std::chrono::nanoseconds timeout);

  /// The newest outcome that was not taken yet, without waiting.
  [[nodiscard]] std::optional<poll_outcome> take();
  void pause(bool paused);

 private:
  void run(const std::stop_token& stop);

  const admin_address whom_;
  const std::chrono::nanoseconds interval_;
  const std::chrono::nanoseconds timeout_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::optional<poll_outcome> newest_;
  bool paused_ = false;
  std::jthread thread_;  // last: it uses what stands above
};

}  // namespace penstock::cli

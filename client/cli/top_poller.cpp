#include "client/cli/top_poller.hpp"

#include <utility>

namespace penstock::cli {

poll_outcome poll_status(const admin_address& whom, std::chrono::nanoseconds timeout) {
  try {
    const http_answer answer = admin_get(whom, "/api/v1/status", timeout);
    if (answer.status != 200) {
      return {std::nullopt, "the daemon's admin HTTP answers with status " + std::to_string(answer.status)};
    }
    return {read_daemon_status(answer.body)};
  } catch (const std::runtime_error& failed) {
    return {std::nullopt, failed.what()};
  }
}

top_poller::top_poller(admin_address whom, std::chrono::nanoseconds interval, std::chrono::nanoseconds timeout)
    : whom_(std::move(whom)),
      interval_(interval),
      timeout_(timeout),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

std::optional<poll_outcome> top_poller::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(newest_, std::nullopt);
}

void top_poller::pause(bool paused) {
  const std::lock_guard lock(mutex_);
  paused_ = paused;
  changed_.notify_all();
}

void top_poller::run(const std::stop_token& stop) {
  auto next = std::chrono::steady_clock::now();
  while (!stop.stop_requested()) {
    poll_outcome outcome = poll_status(whom_, timeout_);
    std::unique_lock lock(mutex_);
    if (!paused_) {
      newest_ = std::move(outcome);
    }
    next = std::max(next + interval_, std::chrono::steady_clock::now());
    changed_.wait_until(lock, stop, next, [] { return false; });
    changed_.wait(lock, stop, [this] { return !paused_; });
  }
}

}  // namespace penstock::cli

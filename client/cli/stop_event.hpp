#pragma once

#include <atomic>

namespace penstock::cli {

/// Asks a stream to end, from a signal handler or from another thread.
class stop_event {
 public:
  /// Throws std::system_error when there is no descriptor left.
  stop_event();
  ~stop_event();
  stop_event(const stop_event&) = delete;
  stop_event& operator=(const stop_event&) = delete;

  /// Async-signal-safe. `signal` is the one that asks for it, 0 = none. Returns false if it was requested before.
  bool request(int signal = 0) noexcept;

  [[nodiscard]] bool requested() const noexcept { return requested_; }
  /// The signal of the first request.
  [[nodiscard]] int signal() const noexcept { return signal_; }
  /// Readable from the first request on, for poll.
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }

 private:
  int descriptor_;
  std::atomic<bool> requested_{false};
  std::atomic<int> signal_{0};
  static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);
};

}  // namespace penstock::cli

#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace penstock::link {

using time_point = std::chrono::steady_clock::time_point;
inline constexpr time_point never = time_point::max();

/// The credits that the daemon granted: a request takes one credit and its bytes, and returns them when it ends.
/// Thread-safe.
class credit_window {
 public:
  enum class answer { taken, none_left, never_enough, closed };

  /// Sets the limits. Credits in use above a lower limit stay in use.
  void grant(std::uint32_t requests, std::uint64_t bytes);
  [[nodiscard]] answer try_take(std::uint64_t bytes);
  /// Waits for credit until `deadline`; then `none_left`.
  [[nodiscard]] answer take(std::uint64_t bytes, time_point deadline);
  /// Waiting threads are woken by the next `notify_waiting`, or after 32 returned credits: a wake-up costs more than a
  /// reply.
  void give_back(std::uint64_t bytes);
  /// Wakes threads that wait in `take`, if credits came back since the last call.
  void notify_waiting();
  /// All waiting and later calls return `closed`.
  void close();

 private:
  [[nodiscard]] answer try_take_locked(std::uint64_t bytes);
  void notify_locked();

  std::mutex mutex_;
  std::condition_variable changed_;
  int waiting_ = 0;
  bool closed_ = false;
  std::uint64_t request_limit_ = 0;
  std::uint64_t byte_limit_ = 0;
  std::uint64_t requests_ = 0;
  std::uint64_t bytes_ = 0;
  unsigned unannounced_ = 0;  ///< credits returned since the last notification
};

}  // namespace penstock::link

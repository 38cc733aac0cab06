#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace penstock::link {

using time_point = std::chrono::steady_clock::time_point;
inline constexpr time_point never = time_point::max();

/// The credits that the daemon granted, and who has them. Each request takes one and its bytes, and gives them back
/// when it ends. Threads: any.
class credit_gate {
 public:
  enum class answer { taken, none_left, never_enough, closed };

  /// What may be in use from now on. What is in use stays so, even where it is more.
  void grant(std::uint32_t requests, std::uint64_t bytes);
  [[nodiscard]] answer try_take(std::uint64_t bytes);
  /// Waits until there is credit; `none_left` when there was none until `deadline`.
  [[nodiscard]] answer take(std::uint64_t bytes, time_point deadline);
  /// Waiting threads are notified by the next `notify_waiting`, or once 32 credits came back: a wake-up for each reply
  /// costs more than the reply.
  void give_back(std::uint64_t bytes);
  /// Notifies threads that wait in `take`, where credits came back since the last time.
  void notify_waiting();
  /// Every waiting and later call is answered `closed`.
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
  unsigned unannounced_ = 0;  ///< credits given back since the last notification
};

}  // namespace penstock::link

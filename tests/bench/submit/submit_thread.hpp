#pragma once

#include <atomic>
#include <cstddef>
#include <thread>

#include "tests/bench/bare_batch.hpp"
#include "tests/bench/ring/hand_over.hpp"
#include "tests/bench/wake_up.hpp"

namespace penstock::bench {

/// A batch that a thread of its own may submit.
struct handed_batch {
  bare_batch* batch = nullptr;
  std::atomic<bool> submitted{true};  ///< cleared by who hands it over, set by the thread that has submitted it
};

/// A thread that does nothing but submit the batches that another hands to it, in order.
class submit_thread {
 public:
  enum class rest { none, asleep };

  /// With `none` it looks again and again for the next batch; `asleep` it is woken for each.
  explicit submit_thread(rest between);
  submit_thread(const submit_thread&) = delete;
  submit_thread& operator=(const submit_thread&) = delete;
  /// Once all that was handed over is submitted.
  ~submit_thread();

  /// Never waits while fewer than `places` are on their way.
  void hand(handed_batch& next);

 private:
  static constexpr std::size_t places = 16;

  void serve();

  const rest between_;
  hand_over<handed_batch*, places> handed_;
  wake_up wake_;
  handed_batch end_;
  std::thread thread_;
};

}  // namespace penstock::bench

#include "client/cpp/command_queue.hpp"

#include <utility>

namespace penstock::link {

bool command_queue::post(command& next) {
  const std::lock_guard lock{mutex_};
  if (closed_) {
    return false;
  }
  waiting_.push_back(std::move(next));
  if (asleep_ && !rung_) {
    rung_ = true;
    wake_event_.signal();
  }
  return true;
}

void command_queue::take_all(std::vector<command>& out) {
  out.clear();
  const std::lock_guard lock{mutex_};
  asleep_ = false;
  out.swap(waiting_);
  // Once closed, the event stays set: the thread may be about to sleep.
  if (rung_ && !closed_) {
    rung_ = false;
    wake_event_.clear();
  }
}

bool command_queue::fall_asleep() {
  const std::lock_guard lock{mutex_};
  asleep_ = waiting_.empty();
  return asleep_;
}

void command_queue::close() {
  const std::lock_guard lock{mutex_};
  closed_ = true;
  rung_ = true;
  wake_event_.signal();
}

bool command_queue::closed() const {
  const std::lock_guard lock{mutex_};
  return closed_;
}

}  // namespace penstock::link

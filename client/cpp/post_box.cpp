#include "client/cpp/post_box.hpp"

#include <utility>

namespace penstock::link {

bool post_box::post(command& what) {
  const std::lock_guard lock{mutex_};
  if (closed_) {
    return false;
  }
  waiting_.push_back(std::move(what));
  if (asleep_ && !rung_) {
    rung_ = true;
    bell_.ring();
  }
  return true;
}

void post_box::take_all(std::vector<command>& out) {
  out.clear();
  const std::lock_guard lock{mutex_};
  asleep_ = false;
  out.swap(waiting_);
  // Once closed it rings for ever: who takes the last commands may be about to sleep.
  if (rung_ && !closed_) {
    rung_ = false;
    bell_.silence();
  }
}

bool post_box::fall_asleep() {
  const std::lock_guard lock{mutex_};
  asleep_ = waiting_.empty();
  return asleep_;
}

void post_box::close() {
  const std::lock_guard lock{mutex_};
  closed_ = true;
  rung_ = true;
  bell_.ring();
}

bool post_box::closed() const {
  const std::lock_guard lock{mutex_};
  return closed_;
}

}  // namespace penstock::link

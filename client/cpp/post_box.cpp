#include "client/cpp/post_box.hpp"

#include <utility>

namespace penstock::link {

bool post_box::post(command& what, bool wake) {
  const std::lock_guard lock{mutex_};
  if (closed_) {
    return false;
  }
  waiting_.push_back(std::move(what));
  if (wake && !rung_) {
    rung_ = true;
    bell_.ring();
  }
  return true;
}

void post_box::take_all(std::vector<command>& out) {
  out.clear();
  const std::lock_guard lock{mutex_};
  out.swap(waiting_);
  // Once closed it rings for ever: who takes the last commands may be about to sleep.
  if (rung_ && !closed_) {
    rung_ = false;
    bell_.silence();
  }
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

bool post_box::empty() const {
  const std::lock_guard lock{mutex_};
  return waiting_.empty();
}

}  // namespace penstock::link

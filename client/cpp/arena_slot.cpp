#include "client/cpp/arena_slot.hpp"

#include <utility>

namespace penstock::link {

std::shared_ptr<arena> arena_slot::current() const {
  const std::lock_guard lock{mutex_};
  return arena_;
}

std::string arena_slot::absence() const {
  const std::lock_guard lock{mutex_};
  return absence_;
}

std::shared_ptr<arena> arena_slot::wait(time_point deadline) const {
  std::unique_lock lock{mutex_};
  const auto is_settled = [this] { return arena_ != nullptr || !absence_.empty(); };
  if (deadline == never) {
    settled_.wait(lock, is_settled);
  } else {
    settled_.wait_until(lock, deadline, is_settled);
  }
  return arena_;
}

std::uint64_t arena_slot::changes() const {
  const std::lock_guard lock{mutex_};
  return changes_;
}

void arena_slot::wait_for_change(std::uint64_t seen, time_point deadline) const {
  std::unique_lock lock{mutex_};
  settled_.wait_until(lock, deadline, [this, seen] { return changes_ != seen; });
}

void arena_slot::stay() {
  const std::lock_guard lock{mutex_};
  ++changes_;
  settled_.notify_all();
}

void arena_slot::put(std::shared_ptr<arena> what) {
  const std::lock_guard lock{mutex_};
  arena_ = std::move(what);
  absence_.clear();
  ++changes_;
  settled_.notify_all();
}

void arena_slot::refuse(std::string why) {
  const std::lock_guard lock{mutex_};
  arena_.reset();
  absence_ = std::move(why);
  ++changes_;
  settled_.notify_all();
}

void arena_slot::forget() {
  const std::lock_guard lock{mutex_};
  arena_.reset();
  absence_.clear();
}

}  // namespace penstock::link

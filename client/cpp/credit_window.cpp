#include "client/cpp/credit_window.hpp"

namespace penstock::link {
namespace {

constexpr unsigned most_unannounced = 32;

}  // namespace

void credit_window::grant(std::uint32_t requests, std::uint64_t bytes) {
  const std::lock_guard lock{mutex_};
  request_limit_ = requests;
  byte_limit_ = bytes;
  changed_.notify_all();
}

credit_window::answer credit_window::try_take_locked(std::uint64_t bytes) {
  if (closed_) {
    return answer::closed;
  }
  if (bytes > byte_limit_ || request_limit_ == 0) {
    return answer::never_enough;
  }
  if (requests_ >= request_limit_ || bytes_ > byte_limit_ - bytes) {
    return answer::none_left;
  }
  ++requests_;
  bytes_ += bytes;
  return answer::taken;
}

credit_window::answer credit_window::try_take(std::uint64_t bytes) {
  const std::lock_guard lock{mutex_};
  return try_take_locked(bytes);
}

credit_window::answer credit_window::take(std::uint64_t bytes, time_point deadline) {
  std::unique_lock lock{mutex_};
  answer given = try_take_locked(bytes);
  ++waiting_;
  bool late = false;
  while (given == answer::none_left && !late) {
    if (deadline == never) {
      changed_.wait(lock);
    } else {
      late = changed_.wait_until(lock, deadline) == std::cv_status::timeout;
    }
    given = try_take_locked(bytes);
  }
  --waiting_;
  return given;
}

void credit_window::give_back(std::uint64_t bytes) {
  const std::lock_guard lock{mutex_};
  --requests_;
  bytes_ -= bytes;
  if (++unannounced_ >= most_unannounced) {
    notify_locked();
  }
}

void credit_window::notify_waiting() {
  const std::lock_guard lock{mutex_};
  if (unannounced_ > 0) {
    notify_locked();
  }
}

void credit_window::notify_locked() {
  unannounced_ = 0;
  if (waiting_ > 0) {
    changed_.notify_all();
  }
}

void credit_window::close() {
  const std::lock_guard lock{mutex_};
  closed_ = true;
  changed_.notify_all();
}

}  // namespace penstock::link

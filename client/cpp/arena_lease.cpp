#include "client/cpp/arena_lease.hpp"

#include <algorithm>
#include <exception>
#include <utility>

namespace penstock::link {
namespace {

constexpr std::chrono::milliseconds between_connects{5};

}  // namespace

void arena_lease::want(time_point now) {
  if (step_ == step::none && now >= not_before_) {
    step_ = step::wanted;
  }
}

void arena_lease::asked(time_point now) {
  step_ = step::asked;
  deadline_ = now + longest_attachment;
}

void arena_lease::ask_again() noexcept {
  if (step_ == step::asked) {
    step_ = step::wanted;
  }
}

bool arena_lease::answered(const wire::attached& where, time_point now) {
  if (step_ != step::asked) {
    return false;
  }
  try {
    socket_.emplace(where);
    step_ = step::fetching;
    tend(now);
  } catch (const std::exception& error) {
    failed(error.what(), now);
  }
  return true;
}

void arena_lease::tend(time_point now) {
  if ((step_ == step::asked || step_ == step::fetching) && now >= deadline_) {
    failed("the daemon took too long to share memory", now);
  }
  if (step_ != step::fetching) {
    return;
  }
  try {
    arena_ = socket_->fetch();
  } catch (const std::exception& error) {
    failed(error.what(), now);
    return;
  }
  reconnect_ = socket_->descriptor() < 0 ? now + between_connects : never;
  if (arena_ != nullptr) {
    step_ = step::held;
    pause_ = retry_after_;
    slot_.put(arena_);
  }
}

void arena_lease::refused(std::string why, time_point now) {
  if (step_ == step::asked) {
    failed(std::move(why), now);
  }
}

void arena_lease::failed(std::string why, time_point now) {
  let_go();
  not_before_ = now + pause_;
  pause_ = std::min(2 * pause_, retry_limit_);
  slot_.refuse(std::move(why));
}

void arena_lease::forget() {
  const bool awaited = step_ != step::none && step_ != step::held;
  let_go();
  step_ = awaited ? step::wanted : step::none;
  not_before_ = time_point::min();
  pause_ = retry_after_;
  slot_.forget();
}

void arena_lease::let_go() noexcept {
  step_ = step::none;
  reconnect_ = never;
  socket_.reset();
  if (arena_ != nullptr) {
    arena_->end();
  }
  arena_.reset();
}

time_point arena_lease::next_due() const noexcept {
  switch (step_) {
    case step::asked:
      return deadline_;
    case step::fetching:
      return std::min(deadline_, reconnect_);
    default:
      return never;
  }
}

}  // namespace penstock::link

#include "client/cpp/arena_lease.hpp"

#include <algorithm>
#include <exception>
#include <utility>

namespace penstock::link {
namespace {

constexpr std::chrono::milliseconds between_connects{5};
constexpr std::chrono::seconds between_looks{1};

}  // namespace

void arena_lease::want(std::uint64_t need, time_point now) {
  if (step_ == step::none && now >= not_before_) {
    size_.want(need, held_.what != nullptr ? held_.what->bytes() : 0);
    step_ = step::wanted;
  } else if (step_ == step::none) {
    slot_.stay();
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
    coming_ = std::make_unique<arena_socket>(where);
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
  leave_outgrown(now);
  if (step_ != step::fetching) {
    return;
  }
  std::shared_ptr<arena> come;
  try {
    come = coming_->fetch();
  } catch (const std::exception& error) {
    failed(error.what(), now);
    return;
  }
  reconnect_ = coming_->descriptor() < 0 ? now + between_connects : never;
  if (come != nullptr) {
    take_over(std::move(come));
    leave_outgrown(now);
  }
}

// Requests that lie in the one before, results and lent memory stay where they are.
void arena_lease::take_over(std::shared_ptr<arena> come) {
  if (held_.what != nullptr) {
    outgrown_.push_back(std::move(held_));
    outgrown_.back().what->end();
  }
  held_ = {std::move(coming_), std::move(come)};
  step_ = step::none;
  pause_ = retry_after_;
  slot_.put(held_.what);
}

// Its user gives room back on any thread, and tells nobody: hence the look once in a while.
void arena_lease::leave_outgrown(time_point now) noexcept {
  std::erase_if(outgrown_, [](const tenure& each) { return each.what->used_bytes() == 0; });
  look_at_ = outgrown_.empty() ? never : now + between_looks;
}

bool arena_lease::has_place_of(const payload& which) const noexcept {
  return which.lies_in(held_.what.get()) || std::any_of(outgrown_.begin(), outgrown_.end(), [&](const tenure& each) {
           return which.lies_in(each.what.get());
         });
}

void arena_lease::refused(std::string why, bool for_want_of_room, time_point now) {
  if (step_ != step::asked) {
    return;
  }
  if (for_want_of_room && size_.halve()) {
    step_ = step::wanted;
  } else {
    failed(std::move(why), now);
  }
}

void arena_lease::failed(std::string why, time_point now) {
  if (step_ == step::none || held_.what == nullptr) {
    lost(std::move(why), now);
    return;
  }
  step_ = step::none;
  coming_.reset();
  reconnect_ = never;
  not_before_ = now + pause_;
  pause_ = std::min(2 * pause_, retry_limit_);
  slot_.stay();
}

void arena_lease::lost(std::string why, time_point now) {
  let_go();
  not_before_ = now + pause_;
  pause_ = std::min(2 * pause_, retry_limit_);
  slot_.refuse(std::move(why));
}

void arena_lease::forget() {
  const bool awaited = step_ != step::none;
  let_go();
  step_ = awaited ? step::wanted : step::none;
  size_.start_anew();
  not_before_ = time_point::min();
  pause_ = retry_after_;
  slot_.forget();
}

void arena_lease::let_go() noexcept {
  step_ = step::none;
  reconnect_ = look_at_ = never;
  coming_.reset();
  outgrown_.clear();  // they give no room out any more
  held_.connection.reset();
  if (held_.what != nullptr) {
    held_.what->end();
  }
  held_.what.reset();
}

time_point arena_lease::next_due() const noexcept {
  switch (step_) {
    case step::asked:
      return std::min(deadline_, look_at_);
    case step::fetching:
      return std::min({deadline_, reconnect_, look_at_});
    default:
      return look_at_;
  }
}

}  // namespace penstock::link

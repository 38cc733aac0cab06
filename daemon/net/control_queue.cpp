#include "daemon/net/control_queue.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace penstock {
namespace {

using std::chrono::nanoseconds;

// After an unpaid message an idle shard pauses for this multiple of the message's time, so that nobody waits for it.
constexpr int pause_after_free = 4;
constexpr int pause_after_long = 50;
constexpr auto between_sweeps = std::chrono::milliseconds{10};

nanoseconds scaled(nanoseconds time, double factor) noexcept {
  return nanoseconds{static_cast<nanoseconds::rep>(static_cast<double>(time.count()) * factor)};
}

}  // namespace

void control_queue::earn(account& account, double share, nanoseconds most, time_point now) noexcept {
  if (now > account.updated) {
    // Limited: a very long time would overflow below.
    const nanoseconds elapsed =
        std::min<nanoseconds>(now - std::max(account.updated, time_point{}), std::chrono::hours{24});
    account.balance = std::min(most, account.balance + scaled(elapsed, share));
    account.updated = now;
  }
}

bool control_queue::solvent(account& payer, time_point now) noexcept {
  earn(payer, limits_.share, limits_.burst, now);
  earn(all_, limits_.share_of_all, limits_.burst_of_all, now);
  return payer.balance > nanoseconds{0} && all_.balance > nanoseconds{0};
}

time_point control_queue::solvent_at(const account& payer, time_point now) const noexcept {
  const nanoseconds own = scaled(nanoseconds{1} - std::min(payer.balance, nanoseconds{0}), 1 / limits_.share);
  const nanoseconds common = scaled(nanoseconds{1} - std::min(all_.balance, nanoseconds{0}), 1 / limits_.share_of_all);
  return now + std::max(own, common);
}

control_queue::account& control_queue::account_of(std::string_view identity, bool known, time_point now) {
  if (const auto found = accounts_.find(identity); found != accounts_.end()) {
    return found->second;
  }
  if (!known && accounts_.size() >= limits_.strangers && now >= swept_at_ + between_sweeps) {
    sweep(now);
  }
  if (!known && accounts_.size() >= limits_.strangers) {
    return others_;
  }
  account& made = accounts_[std::string(identity)];
  made.balance = limits_.burst;
  made.updated = now;
  return made;
}

bool control_queue::admits(account& payer, time_point now) {
  return payer.waiting.empty() && solvent(payer, now);
}

void control_queue::charge(account& payer, nanoseconds spent) noexcept {
  payer.balance -= spent;
  all_.balance -= spent;
}

std::size_t control_queue::bytes_of(std::size_t identity, std::size_t body) noexcept {
  return sizeof(waiting_message) + identity + body;
}

bool control_queue::has_room(const account& payer, std::size_t identity, std::size_t body) const noexcept {
  const std::size_t bytes = bytes_of(identity, body);
  return payer.waiting.size() < limits_.messages && payer.bytes + bytes <= limits_.bytes &&
         bytes_ + bytes <= limits_.bytes_of_all;
}

bool control_queue::park(account& payer, waiting_message&& message) {
  if (!has_room(payer, message.identity.size(), message.body.size())) {
    return false;
  }
  const std::size_t bytes = bytes_of(message.identity.size(), message.body.size());
  if (payer.waiting.empty()) {
    waiting_.push_back(&payer);
  }
  payer.waiting.push_back(std::move(message));
  payer.bytes += bytes;
  bytes_ += bytes;
  ++messages_;
  return true;
}

waiting_message control_queue::take_front(account& payer) {
  waiting_message taken = std::move(payer.waiting.front());
  payer.waiting.pop_front();
  const std::size_t bytes = bytes_of(taken.identity.size(), taken.body.size());
  payer.bytes -= bytes;
  bytes_ -= bytes;
  --messages_;
  return taken;
}

void control_queue::done(nanoseconds spent, time_point now) {
  if (!served_free_) {
    charge(*served_, spent);
  } else if (served_long_) {
    long_at_ = now + std::max(limits_.between_long, spent * pause_after_long);
  } else {
    served_->free_at = now + limits_.between_free + spent * pause_after_free;
  }
  if (!served_->waiting.empty()) {
    waiting_.push_back(served_);
  }
  served_ = nullptr;
}

void control_queue::discard(std::string_view identity) {
  const auto found = accounts_.find(identity);
  if (found == accounts_.end() || found->second.waiting.empty()) {
    return;
  }
  account& left = found->second;
  while (!left.waiting.empty()) {
    (void)take_front(left);
  }
  waiting_.erase(std::remove(waiting_.begin(), waiting_.end(), &left), waiting_.end());
}

void control_queue::sweep(time_point now) {
  swept_at_ = now;
  for (auto each = accounts_.begin(); each != accounts_.end();) {
    account& one = each->second;
    earn(one, limits_.share, limits_.burst, now);
    each = one.waiting.empty() && one.balance >= limits_.burst ? accounts_.erase(each) : std::next(each);
  }
}

}  // namespace penstock

#include "daemon/request/fair_queue.hpp"

#include <utility>

#include "daemon/request/client_table.hpp"

namespace penstock {

void fair_queue::push(request& last) {
  const std::size_t place = last.client->index;
  while (place >= turns_.size()) {
    turns_.emplace_back();
  }
  turn& of = turns_[place];
  if (of.waiting.empty()) {
    of.deficit = 0;
    of.paid = false;
    of.next = nullptr;
    (front_ == nullptr ? front_ : back_->next) = &of;
    back_ = &of;
  }
  of.waiting.push(last);
  ++size_;
}

request* fair_queue::first() noexcept {
  if (front_ == nullptr) {
    return nullptr;
  }
  while (true) {
    turn& now = *front_;
    if (!now.paid) {
      now.paid = true;
      now.deficit += quantum_;
    }
    if (now.waiting.first()->bytes <= now.deficit) {
      return now.waiting.first();
    }
    now.paid = false;
    if (now.next != nullptr) {
      front_ = now.next;
      back_->next = &now;
      back_ = &now;
      now.next = nullptr;
    }
  }
}

void fair_queue::take(request& served) noexcept {
  turns_[served.client->index].deficit -= served.bytes;
  remove(served);
}

void fair_queue::remove(request& any) noexcept {
  turn& of = turns_[any.client->index];
  of.waiting.remove(any);
  --size_;
  if (of.waiting.empty()) {
    leave_round(of);
  }
}

void fair_queue::leave_round(turn& empty) noexcept {
  turn* before = nullptr;
  for (turn* each = front_; each != &empty; each = each->next) {
    before = each;
  }
  (before == nullptr ? front_ : before->next) = empty.next;
  if (back_ == &empty) {
    back_ = before;
  }
}

request* fair_queue::oldest_of(const client_record& client) const noexcept {
  return client.index < turns_.size() ? turns_[client.index].waiting.first() : nullptr;
}

}  // namespace penstock

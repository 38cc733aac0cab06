#include "daemon/request/fair_queue.hpp"

#include "daemon/request/client_table.hpp"

namespace penstock {

void fair_queue::turn_list::append(turn& last) noexcept {
  last.next = nullptr;
  (front == nullptr ? front : back->next) = &last;
  back = &last;
  ++size;
}

fair_queue::turn& fair_queue::turn_list::pop() noexcept {
  turn& first = *front;
  front = first.next;
  --size;
  return first;
}

std::size_t fair_queue::place_of(const request& what) noexcept {
  return what.client->index;
}

void fair_queue::push(request& last) {
  while (last.client->index >= turns_.size()) {
    turns_.emplace_back();
  }
  turn& of = turn_of(last);
  if (!of.listed) {
    of.listed = true;
    of.paid = false;
    fresh_.append(of);
  }
  of.waiting.push(last);
  of.bytes += last.bytes;
  ++size_;
}

// The turn at the front is over. One that has nothing waiting any more leaves, but not straight from the fresh ones:
// it goes through the round first, or it could come back as fresh for ever.
void fair_queue::pass_on(turn_list& from) noexcept {
  turn& over = from.pop();
  over.paid = false;
  if (over.waiting.empty() && &from == &round_) {
    over.listed = false;
  } else {
    round_.append(over);
  }
}

request* fair_queue::first(bool heavy_too) noexcept {
  std::size_t passed_over = 0;  // heavy ones in a row
  while (size_ != 0) {
    turn_list& from = fresh_.front != nullptr ? fresh_ : round_;
    turn& now = *from.front;
    if (!heavy_too && heavy(now)) {
      if (++passed_over > fresh_.size + round_.size) {
        return nullptr;
      }
      pass_on(from);
      continue;
    }
    passed_over = 0;
    request* const next = now.waiting.first();
    if (next != nullptr && !now.paid) {
      now.paid = true;
      now.deficit += quantum_;
    }
    if (next != nullptr && next->bytes <= now.deficit) {
      return next;
    }
    pass_on(from);
  }
  return nullptr;
}

void fair_queue::take(request& served) noexcept {
  turn_of(served).deficit -= served.bytes;
  remove(served);
}

// Whoever has nothing waiting has nothing saved up either.
void fair_queue::remove(request& any) noexcept {
  turn& of = turn_of(any);
  of.waiting.remove(any);
  of.bytes -= any.bytes;
  --size_;
  if (of.waiting.empty()) {
    of.deficit = 0;
  }
}

request* fair_queue::oldest_of(const client_record& client) const noexcept {
  return client.index < turns_.size() ? turns_[client.index].waiting.first() : nullptr;
}

}  // namespace penstock

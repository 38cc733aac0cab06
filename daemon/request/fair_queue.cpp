#include "daemon/request/fair_queue.hpp"

#include "daemon/request/clients.hpp"

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

std::size_t fair_queue::place_of(const request& request) noexcept {
  return request.client->index;
}

void fair_queue::push(request& last) {
  while (last.client->index >= turns_.size()) {
    turns_.emplace_back();
  }
  turn& client = turn_of(last);
  if (!client.listed) {
    client.listed = true;
    client.paid = false;
    fresh_.append(client);
  }
  client.waiting.push(last);
  client.bytes += last.bytes;
  ++size_;
}

// Ends the turn at the front. A client with nothing waiting leaves, but a fresh one goes through the round first, or it
// could return as fresh forever.
void fair_queue::pass_on(turn_list& list) noexcept {
  turn& ended = list.pop();
  ended.paid = false;
  if (ended.waiting.empty() && &list == &round_) {
    ended.listed = false;
  } else {
    round_.append(ended);
  }
}

request* fair_queue::first(bool heavy_too) noexcept {
  std::size_t passed_over = 0;  // heavy ones in a row
  while (size_ != 0) {
    turn_list& list = fresh_.front != nullptr ? fresh_ : round_;
    turn& current = *list.front;
    if (!heavy_too && heavy(current)) {
      if (++passed_over > fresh_.size + round_.size) {
        return nullptr;
      }
      pass_on(list);
      continue;
    }
    passed_over = 0;
    request* const next = current.waiting.first();
    if (next != nullptr && !current.paid) {
      current.paid = true;
      current.deficit += quantum_;
    }
    if (next != nullptr && next->bytes <= current.deficit) {
      return next;
    }
    pass_on(list);
  }
  return nullptr;
}

void fair_queue::take(request& served) noexcept {
  turn_of(served).deficit -= served.bytes;
  remove(served);
}

// A client with nothing waiting keeps no deficit.
void fair_queue::remove(request& any) noexcept {
  turn& client = turn_of(any);
  client.waiting.remove(any);
  client.bytes -= any.bytes;
  --size_;
  if (client.waiting.empty()) {
    client.deficit = 0;
  }
}

request* fair_queue::oldest_of(const client_record& client) const noexcept {
  return client.index < turns_.size() ? turns_[client.index].waiting.first() : nullptr;
}

}  // namespace penstock

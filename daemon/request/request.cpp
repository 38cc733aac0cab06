#include "daemon/request/request.hpp"

#include <cassert>

namespace penstock {

request_pool::request_pool() {
  while (all_.size() < usual_requests) {
    make();
  }
  for (auto each = all_.rbegin(); each != all_.rend(); ++each) {
    release(*each);
  }
}

request& request_pool::make() {
  request& made = all_.emplace_back();
  made.index = static_cast<std::uint32_t>(all_.size() - 1);
  return made;
}

request& request_pool::claim() {
  if (free_ == nullptr) {
    return make();
  }
  request& reused = *free_;
  free_ = reused.next;
  const std::uint32_t index = reused.index;
  reused = request{};
  reused.index = index;
  return reused;
}

void request_pool::release(request& done) noexcept {
  done.next = free_;
  free_ = &done;
}

void request_queue::push(request& last) noexcept {
  last.previous = last_;
  last.next = nullptr;
  (last_ != nullptr ? last_->next : first_) = &last;
  last_ = &last;
  ++size_;
}

void request_queue::remove(request& any) noexcept {
  assert(size_ > 0);
  (any.previous != nullptr ? any.previous->next : first_) = any.next;
  (any.next != nullptr ? any.next->previous : last_) = any.previous;
  any.previous = nullptr;
  any.next = nullptr;
  --size_;
}

void deadline_heap::push(request& timed) {
  heap_.push_back(&timed);
  timed.heap_position = heap_.size() - 1;
  rise(heap_.size() - 1);
}

void deadline_heap::remove(request& any) noexcept {
  const std::size_t position = any.heap_position;
  assert(position < heap_.size() && heap_[position] == &any);
  request* last = heap_.back();
  heap_.pop_back();
  if (last != &any) {
    place(position, *last);
    rise(position);
    sink(last->heap_position);
  }
}

void deadline_heap::place(std::size_t position, request& moved) noexcept {
  heap_[position] = &moved;
  moved.heap_position = position;
}

void deadline_heap::rise(std::size_t position) noexcept {
  request* moving = heap_[position];
  while (position > 0) {
    const std::size_t parent = (position - 1) / 2;
    if (heap_[parent]->deadline <= moving->deadline) {
      break;
    }
    place(position, *heap_[parent]);
    position = parent;
  }
  place(position, *moving);
}

void deadline_heap::sink(std::size_t position) noexcept {
  request* moving = heap_[position];
  for (;;) {
    std::size_t child = 2 * position + 1;
    if (child >= heap_.size()) {
      break;
    }
    if (child + 1 < heap_.size() && heap_[child + 1]->deadline < heap_[child]->deadline) {
      ++child;
    }
    if (moving->deadline <= heap_[child]->deadline) {
      break;
    }
    place(position, *heap_[child]);
    position = child;
  }
  place(position, *moving);
}

}  // namespace penstock

#include "daemon/net/reply_memory.hpp"

#include <utility>

namespace penstock {

reply_memory::reply_memory(memory_budget& budget) : store_(new store(budget)) {
  store_->put_back(store_->take());
}

reply_memory::~reply_memory() {
  store_->drop();
}

reply_memory::of_client::of_client(reply_memory& memory) : memory_(memory), account_(new account) {}

reply_memory::of_client::~of_client() {
  account_->drop();
}

void reply_memory::account::drop() noexcept {
  if (references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    delete this;
  }
}

void reply_memory::store::drop() noexcept {
  if (references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    delete this;
  }
}

reply_memory::part& reply_memory::store::take() {
  constexpr std::size_t at_once = 1024;
  if (unused == nullptr) {
    unused = returned.exchange(nullptr, std::memory_order_acquire);
  }
  if (unused == nullptr) {
    part* const made = all.emplace_back(std::make_unique<part[]>(at_once)).get();
    for (std::size_t index = 0; index < at_once; ++index) {
      made[index].home = this;
      made[index].next = std::exchange(unused, &made[index]);
    }
  }
  part& taken = *unused;
  unused = taken.next;
  return taken;
}

void reply_memory::store::put_back(part& unused_again) noexcept {
  unused_again.next = returned.load(std::memory_order_relaxed);
  while (!returned.compare_exchange_weak(unused_again.next, &unused_again, std::memory_order_release,
                                         std::memory_order_relaxed)) {
  }
}

void reply_memory::part::let_go(void* /*data*/, void* hint) noexcept {
  part& self = *static_cast<part*>(hint);
  account& client = *self.client.load(std::memory_order_acquire);
  const std::size_t bytes = self.message.size();
  store& home = *self.home;
  self.message = zmq::message_t();
  home.budget.give_back(bytes);
  client.held.fetch_sub(bytes, std::memory_order_relaxed);
  home.put_back(self);
  client.drop();
  home.drop();
}

bool reply_memory::of_client::has_room(std::size_t bytes) const noexcept {
  constexpr std::size_t share = 8;
  const std::size_t left = memory_.store_->budget.left();
  return held() + bytes <= left / share || (held() == 0 && bytes <= left);
}

zmq::message_t reply_memory::of_client::hold(zmq::message_t&& message) {
  store& home = *memory_.store_;
  part& taken = home.take();
  taken.message = std::move(message);
  const std::size_t bytes = taken.message.size();
  home.budget.charge(bytes);
  home.references.fetch_add(1, std::memory_order_relaxed);
  account_->held.fetch_add(bytes, std::memory_order_relaxed);
  account_->references.fetch_add(1, std::memory_order_relaxed);
  void* const data = taken.message.data();
  taken.client.store(account_, std::memory_order_release);
  try {
    return {data, bytes, part::let_go, &taken};
  } catch (const zmq::error_t&) {
    part::let_go(data, &taken);
    throw std::bad_alloc();
  }
}

}  // namespace penstock

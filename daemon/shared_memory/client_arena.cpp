#include "daemon/shared_memory/client_arena.hpp"

namespace penstock {

client_arena::client_arena(std::uint32_t number, std::size_t bytes, device& on, arena_owner& owner)
    : number_(number), device_(on), owner_(owner), memory_(bytes) {
  device_.pin(memory_.data(), memory_.bytes());
}

client_arena::~client_arena() {
  device_.unpin(memory_.data());
}

void client_arena::drop() noexcept {
  if (uses_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    owner_.take_back(*this);
  }
}

}  // namespace penstock

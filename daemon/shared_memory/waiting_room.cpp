#include "daemon/shared_memory/waiting_room.hpp"

#include <algorithm>

namespace penstock {

arena_lease* waiting_room::surplus(std::uint32_t user) const {
  if (count(user) >= most_of_a_user) {
    return oldest_of(user);
  }
  if (visitors_.size() < most) {
    return nullptr;
  }
  const auto busiest = std::max_element(
      visitors_.begin(), visitors_.end(),
      [this](const visitor& one, const visitor& other) { return count(one.user) < count(other.user); });
  return oldest_of(busiest->user);
}

void waiting_room::enter(arena_lease& who, std::uint32_t user) {
  visitors_.push_back({&who, user});
}

void waiting_room::leave(const arena_lease& who) noexcept {
  std::erase_if(visitors_, [&who](const visitor& each) { return each.who == &who; });
}

std::size_t waiting_room::count(std::uint32_t user) const noexcept {
  const auto its =
      std::count_if(visitors_.begin(), visitors_.end(), [user](const visitor& each) { return each.user == user; });
  return static_cast<std::size_t>(its);
}

arena_lease* waiting_room::oldest_of(std::uint32_t user) const noexcept {
  const auto found =
      std::find_if(visitors_.begin(), visitors_.end(), [user](const visitor& each) { return each.user == user; });
  return found != visitors_.end() ? found->who : nullptr;
}

}  // namespace penstock

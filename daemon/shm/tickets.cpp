#include "daemon/shm/tickets.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <sys/random.h>

namespace penstock {

std::string ticket_table::issue(arena_order order, clock::time_point now) {
  std::array<unsigned char, digits / 2> random{};
  if (::getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size())) {
    return "";
  }
  constexpr std::string_view hexadecimal = "0123456789abcdef";
  std::string ticket;
  for (const unsigned char each : random) {
    ticket += hexadecimal[each >> 4U];
    ticket += hexadecimal[each & 0xFU];
  }
  const std::lock_guard lock(mutex_);
  std::erase_if(out_, [now](const auto& each) { return each.second.until <= now; });
  const auto its = std::count_if(out_.begin(), out_.end(), [&order](const auto& each) {
    return each.second.order.shard == order.shard && each.second.order.client == order.client;
  });
  if (out_.size() >= most || static_cast<std::size_t>(its) >= most_of_a_client) {
    return "";
  }
  out_.emplace(ticket, issued{std::move(order), now + valid});
  return ticket;
}

std::optional<arena_order> ticket_table::redeem(std::string_view ticket, clock::time_point now) {
  const std::lock_guard lock(mutex_);
  const auto found = out_.find(std::string(ticket));
  if (found == out_.end()) {
    return std::nullopt;
  }
  issued taken = std::move(found->second);
  out_.erase(found);
  return taken.until > now ? std::optional(std::move(taken.order)) : std::nullopt;
}

}  // namespace penstock

#include "daemon/request/client_table.hpp"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <utility>

#include "daemon/shared_memory/client_arena.hpp"

namespace penstock {

std::size_t request_index::place_of(std::uint64_t id) const noexcept {
  // Ids count up: those that follow each other lie together, as many as share a cache line. Fibonacci hashing (Knuth,
  // TAOCP 3, 6.4) spreads the lines.
  constexpr unsigned line_bits = 3;
  const std::uint64_t line = ((id >> line_bits) * 0x9E3779B97F4A7C15ULL) >> 32U;
  return static_cast<std::size_t>(line << line_bits | (id & ((1U << line_bits) - 1))) & mask_;
}

request* request_index::find(std::uint64_t id) const noexcept {
  for (std::size_t at = place_of(id); places_[at] != nullptr; at = (at + 1) & mask_) {
    if (places_[at]->id == id) {
      return places_[at];
    }
  }
  return nullptr;
}

request* request_index::any() const noexcept {
  const auto found = std::find_if(places_.begin(), places_.end(), [](const request* each) { return each != nullptr; });
  return found == places_.end() ? nullptr : *found;
}

void request_index::insert(request& what) {
  if (2 * (size_ + 1) > places_.size()) {
    grow();
  }
  ++size_;
  put(what);
}

void request_index::put(request& what) noexcept {
  std::size_t at = place_of(what.id);
  while (places_[at] != nullptr) {
    at = (at + 1) & mask_;
  }
  places_[at] = &what;
}

void request_index::erase(const request& what) noexcept {
  std::size_t hole = place_of(what.id);
  while (places_[hole] != &what) {
    assert(places_[hole] != nullptr);
    hole = (hole + 1) & mask_;
  }
  // Whoever was pushed past the hole moves back into it, so that every run stays unbroken without tombstones.
  for (std::size_t at = (hole + 1) & mask_; places_[at] != nullptr; at = (at + 1) & mask_) {
    const std::size_t wanted = place_of(places_[at]->id);
    if (((at - wanted) & mask_) >= ((at - hole) & mask_)) {
      places_[hole] = places_[at];
      hole = at;
    }
  }
  places_[hole] = nullptr;
  --size_;
}

void request_index::grow() {
  const std::vector<request*> before = std::exchange(places_, std::vector<request*>(2 * places_.size()));
  mask_ = places_.size() - 1;
  for (request* const each : before) {
    if (each != nullptr) {
      put(*each);
    }
  }
}

void client_record::grant(std::uint32_t credit_requests, std::size_t credit_bytes, time_point now) {
  constexpr std::chrono::seconds under_way{10};
  const bool first = granted_bytes == SIZE_MAX;
  told_requests = credit_requests;
  told_bytes = credit_bytes;
  granted_requests = first ? credit_requests : std::max(granted_requests, credit_requests);
  granted_bytes = first ? credit_bytes : std::max(granted_bytes, credit_bytes);
  settles_at = granted_requests != told_requests || granted_bytes != told_bytes ? now + under_way : never;
}

void client_record::settle(time_point now) noexcept {
  if (settles_at <= now && requests == 0) {
    granted_requests = told_requests;
    granted_bytes = told_bytes;
    settles_at = never;
  }
}

client_arena* client_record::arena(std::uint32_t number) const noexcept {
  const auto found =
      std::find_if(arenas.begin(), arenas.end(), [&](const client_arena* each) { return each->number() == number; });
  return found != arenas.end() ? *found : nullptr;
}

std::size_t client_record::arena_bytes() const noexcept {
  return std::accumulate(arenas.begin(), arenas.end(), std::size_t{0},
                         [](std::size_t sum, const client_arena* each) { return sum + each->bytes(); });
}

bool client_record::leave_arena(std::uint32_t number) noexcept {
  client_arena* const left = arena(number);
  if (left != nullptr) {
    std::erase(arenas, left);
    left->drop();
  }
  return left != nullptr;
}

void client_record::leave_arenas() noexcept {
  for (client_arena* const each : std::exchange(arenas, {})) {
    each->drop();
  }
}

client_record* client_table::find(std::string_view identity) const noexcept {
  const auto found = by_identity_.find(identity);
  return found == by_identity_.end() ? nullptr : found->second.get();
}

client_record* client_table::admit(std::string_view identity, time_point now) {
  client_record* client = find(identity);
  if (client == nullptr) {
    if (by_identity_.size() >= max_clients_) {
      return nullptr;
    }
    std::uint32_t place = next_place_;
    if (free_places_.empty()) {
      ++next_place_;
    } else {
      place = free_places_.back();
      free_places_.pop_back();
    }
    auto made = std::make_unique<client_record>(place, identity, credit_requests_);
    client = made.get();
    client->incarnation = next_incarnation();
    by_identity_.emplace(client->identity, std::move(made));
  }
  client->last_heard = now;
  client->gone = false;
  return client;
}

void client_table::forget(client_record& client) noexcept {
  assert(client.references == 0);
  free_places_.push_back(client.index);
  by_identity_.erase(by_identity_.find(client.identity));
}

client_record* client_table::forgettable(time_point limit) const noexcept {
  for (const auto& [identity, client] : by_identity_) {
    // Who shares memory is alive: its arenas go at once when its connection or its process ends.
    const bool silent = client->arenas.empty() && client->last_heard < limit;
    if (client->references == 0 && (client->gone || client->elsewhere || silent)) {
      return client.get();
    }
  }
  return nullptr;
}

}  // namespace penstock

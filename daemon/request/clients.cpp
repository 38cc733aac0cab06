#include "daemon/request/clients.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <numeric>
#include <utility>

#include <sys/random.h>

#include "daemon/shm/segment.hpp"
#include "proto/control.hpp"

namespace penstock {
namespace {

constexpr std::size_t token_half = wire::resume_token_letters / 2;

// Compares in constant time.
bool same_secret(std::string_view left, std::string_view right) noexcept {
  unsigned difference = left.size() == right.size() ? 0 : 1;
  for (std::size_t index = 0; index < std::min(left.size(), right.size()); ++index) {
    difference |=
        static_cast<unsigned>(static_cast<unsigned char>(left[index]) ^ static_cast<unsigned char>(right[index]));
  }
  return difference == 0;
}

}  // namespace

request_index::request_index(std::size_t most) {
  reserve(most);
}

void request_index::reserve(std::size_t most) {
  const std::size_t places = std::max(std::bit_ceil(2 * most), least_places);
  tables_.resize(std::max(tables_.size(), 2 * places));
}

std::size_t request_index::place_of(std::uint64_t id) const noexcept {
  // Consecutive ids share a cache line. Fibonacci hashing (Knuth, TAOCP 3, 6.4) spreads the lines.
  constexpr unsigned line_bits = 3;
  const std::uint64_t line = ((id >> line_bits) * 0x9E3779B97F4A7C15ULL) >> 32U;
  return static_cast<std::size_t>(line << line_bits | (id & ((1U << line_bits) - 1))) & mask_;
}

request* request_index::find(std::uint64_t id) const noexcept {
  for (std::size_t place = place_of(id); at(place) != nullptr; place = (place + 1) & mask_) {
    if (at(place)->id == id) {
      return at(place);
    }
  }
  return nullptr;
}

request* request_index::any() const noexcept {
  for (std::size_t place = 0; size_ > 0 && place <= mask_; ++place) {
    if (at(place) != nullptr) {
      return at(place);
    }
  }
  return nullptr;
}

void request_index::insert(request& request) noexcept {
  if (2 * (size_ + 1) > mask_ + 1) {
    grow();
  }
  ++size_;
  put(request);
}

void request_index::put(request& request) noexcept {
  std::size_t place = place_of(request.id);
  while (at(place) != nullptr) {
    place = (place + 1) & mask_;
  }
  at(place) = &request;
}

void request_index::erase(const request& request) noexcept {
  std::size_t hole = place_of(request.id);
  while (at(hole) != &request) {
    assert(at(hole) != nullptr);
    hole = (hole + 1) & mask_;
  }
  // Entries that were pushed past the hole move back into it, so no tombstones are needed.
  for (std::size_t place = (hole + 1) & mask_; at(place) != nullptr; place = (place + 1) & mask_) {
    const std::size_t wanted = place_of(at(place)->id);
    if (((place - wanted) & mask_) >= ((place - hole) & mask_)) {
      at(hole) = at(place);
      hole = place;
    }
  }
  at(hole) = nullptr;
  --size_;
}

void request_index::grow() noexcept {
  const std::size_t before = mask_ + 1;
  assert(4 * before <= tables_.size());
  mask_ = 2 * before - 1;
  for (std::size_t offset = before; offset < 2 * before; ++offset) {
    if (request* const each = std::exchange(tables_[offset], nullptr)) {
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
  in_flight.reserve(granted_requests);
}

void client_record::settle(time_point now) noexcept {
  if (settles_at <= now && requests == 0) {
    granted_requests = told_requests;
    granted_bytes = told_bytes;
    settles_at = never;
  }
}

client_arena* client_record::arena(std::uint32_t arena_number) const noexcept {
  const auto found = std::find_if(arenas.begin(), arenas.end(),
                                  [&](const client_arena* each) { return each->number() == arena_number; });
  return found != arenas.end() ? *found : nullptr;
}

std::size_t client_record::shared_bytes(arena_memory kind) const noexcept {
  return std::accumulate(
      arenas.begin(), arenas.end(), std::size_t{0},
      [kind](std::size_t sum, const client_arena* each) { return sum + (each->memory() == kind ? each->bytes() : 0); });
}

bool client_record::leave_arena(std::uint32_t arena_number) noexcept {
  client_arena* const left = arena(arena_number);
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
  return found == by_identity_.end() ? nullptr : found->second;
}

client_record* client_table::find_token(std::string_view token, std::string_view user) const noexcept {
  if (token.size() != wire::resume_token_letters) {
    return nullptr;
  }
  // The first half finds the client, by its hash; so run time can reveal nothing about the second half.
  const auto found = by_token_.find(token.substr(0, token_half));
  if (found == by_token_.end() || !same_secret(found->second->token, token) || found->second->user != user) {
    return nullptr;
  }
  return found->second;
}

client_record* client_table::find_incarnation(std::uint32_t incarnation) const noexcept {
  const auto found = std::find_if(records_.begin(), records_.end(), [&](const auto& each) {
    return each != nullptr && each->incarnation == incarnation;
  });
  return found == records_.end() ? nullptr : found->get();
}

client_record* client_table::admit(std::string_view identity, time_point now, bool within_process) {
  client_record* client = find(identity);
  if (client == nullptr) {
    if (!within_process && full()) {
      return nullptr;
    }
    if (free_places_.empty()) {
      records_.emplace_back();
      free_places_.push_back(static_cast<std::uint32_t>(records_.size()) - 1);
    }
    const std::uint32_t place = free_places_.back();
    auto made = std::make_unique<client_record>(place, identity, credit_requests_, next_number_++);
    client = made.get();
    client->incarnation = next_incarnation();
    client->within_process = within_process;
    by_identity_.emplace(client->identity, client);
    // Nothing below allocates, so the client is added completely or not at all.
    free_places_.pop_back();
    records_[place] = std::move(made);
    ++size_;
    within_process_ += within_process ? 1 : 0;
  }
  if (client->token.empty()) {
    give_token(*client);
  }
  client->last_heard = now;
  client->lost_since = never;
  client->gone = false;
  return client;
}

// Without random numbers there is no token, and the client can't come back.
void client_table::give_token(client_record& client) {
  std::array<unsigned char, wire::resume_token_letters / 2> random{};
  std::string token;
  do {
    if (::getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size())) {
      return;
    }
    constexpr std::string_view hexadecimal = "0123456789abcdef";
    token.clear();
    for (const unsigned char each : random) {
      token += hexadecimal[each >> 4U];
      token += hexadecimal[each & 0xFU];
    }
  } while (!by_token_.emplace(token.substr(0, token_half), &client).second);
  client.token = std::move(token);
}

void client_table::move(client_record& client, std::string_view identity) {
  detach(client);
  const auto [place, fresh] = by_identity_.emplace(identity, &client);
  if (!fresh) {
    place->second->identity.clear();
    place->second = &client;
  }
  client.identity = identity;
  client.lost_since = never;
}

void client_table::revoke(client_record& client) noexcept {
  if (!client.token.empty()) {
    by_token_.erase(by_token_.find(std::string_view(client.token).substr(0, token_half)));
    client.token.clear();
  }
}

void client_table::detach(const client_record& client) noexcept {
  if (!client.identity.empty()) {
    // Missing only if an allocation failed while it was added.
    if (const auto found = by_identity_.find(client.identity); found != by_identity_.end()) {
      by_identity_.erase(found);
    }
  }
}

void client_table::forget(client_record& client) noexcept {
  assert(client.references == 0);
  revoke(client);
  detach(client);
  within_process_ -= client.within_process ? 1 : 0;
  free_places_.push_back(client.index);
  records_[client.index].reset();
  --size_;
}

client_record* client_table::lost_by(time_point limit) const noexcept {
  const auto found = std::find_if(records_.begin(), records_.end(), [&](const auto& each) {
    return each != nullptr && !each->gone && each->lost_since <= limit;
  });
  return found == records_.end() ? nullptr : found->get();
}

client_record* client_table::forgettable(time_point limit) const noexcept {
  for (const auto& client : records_) {
    if (client == nullptr) {
      continue;
    }
    // A client with arenas is alive: they go at once when its connection or its process ends. One that only listens has
    // nothing to say; it is forgotten when its connection has ended.
    const bool silent = client->arenas.empty() && client->subscriptions == 0 && client->last_heard < limit;
    if (client->references == 0 && (client->gone || client->elsewhere || silent)) {
      return client.get();
    }
  }
  return nullptr;
}

}  // namespace penstock

#include "daemon/net/reply_cache.hpp"

namespace penstock {

std::size_t bytes_of(const reply_parts& parts) noexcept {
  std::size_t total = 0;
  for (const zmq::message_t& part : parts) {
    total += part.size();
  }
  return total;
}

void share(reply_parts& parts, reply_parts& copy) {
  copy.clear();
  for (zmq::message_t& part : parts) {
    copy.emplace_back().copy(part);
  }
}

recent_replies::recent_replies() : entries_(places) {
  // Reserved, so that no place allocates later. The usual reply has a header and one output.
  constexpr std::size_t usual_parts = 4;
  for (entry& each : entries_) {
    each.parts.reserve(usual_parts);
  }
}

// Fibonacci hashing (Knuth, TAOCP 3, 6.4): of consecutive ids, hundreds pass before two collide.
recent_replies::entry& recent_replies::place_of(std::uint32_t client, std::uint64_t id) noexcept {
  constexpr std::uint64_t step = 0x9E3779B97F4A7C15ULL;
  constexpr std::uint64_t apart = 0xC2B2AE3D27D4EB4FULL;
  return entries_[(id * step + client * apart) >> (64U - place_bits)];
}

void recent_replies::keep(std::uint32_t client, std::uint64_t id, reply_parts& parts) {
  entry& kept = place_of(client, id);
  kept.id = id;
  kept.client = client;
  share(parts, kept.parts);
}

void recent_replies::find(std::uint32_t client, std::uint64_t id, reply_parts& found) {
  entry& kept = place_of(client, id);
  found.clear();
  if (kept.is(client, id)) {
    share(kept.parts, found);
  }
}

void recent_replies::remove(std::uint32_t client, std::uint64_t id) noexcept {
  if (entry& kept = place_of(client, id); kept.is(client, id)) {
    kept.parts.clear();
  }
}

void recent_replies::forget(std::uint32_t client) noexcept {
  for (entry& each : entries_) {
    if (each.client == client) {
      each.parts.clear();
    }
  }
}

void session_replies::empty(std::uint32_t place) noexcept {
  entry& old = entries_[place];
  if (old.parts.empty()) {
    return;
  }
  old.parts.clear();
  kept_bytes_ -= old.bytes;
  (old.older == none ? oldest_ : entries_[old.older].newer) = old.newer;
  (old.newer == none ? newest_ : entries_[old.newer].older) = old.older;
}

void session_replies::keep(std::uint64_t id, reply_parts& parts) {
  if (entries_.empty()) {
    entries_.resize(places_);
  }
  const auto place = static_cast<std::uint32_t>(id % entries_.size());
  empty(place);
  const std::size_t bytes = bytes_of(parts);
  if (!takes(bytes) || parts.empty()) {
    return;
  }
  while (kept_bytes_ + bytes > budget_) {
    empty(oldest_);
  }
  entry& kept = entries_[place];
  kept.id = id;
  kept.bytes = bytes;
  kept.older = newest_;
  kept.newer = none;
  share(parts, kept.parts);
  kept_bytes_ += bytes;
  (newest_ == none ? oldest_ : entries_[newest_].newer) = place;
  newest_ = place;
}

void session_replies::remove(std::uint64_t id) noexcept {
  if (entries_.empty()) {
    return;
  }
  if (const auto place = static_cast<std::uint32_t>(id % entries_.size()); entries_[place].id == id) {
    empty(place);
  }
}

void session_replies::find(std::uint64_t id, reply_parts& found) {
  found.clear();
  if (entries_.empty()) {
    return;
  }
  if (entry& place = entries_[id % entries_.size()]; place.id == id) {
    share(place.parts, found);
  }
}

}  // namespace penstock

#include "daemon/egress/reply_cache.hpp"

#include <algorithm>

namespace penstock {

std::size_t bytes_of(const reply_parts& parts) noexcept {
  std::size_t total = 0;
  for (const zmq::message_t& part : parts) {
    total += part.size();
  }
  return total;
}

reply_cache::reply_cache(std::size_t places, std::size_t budget, std::size_t largest_plain)
    : entries_(places), budget_(budget), largest_plain_(std::min(budget / places, largest_plain)) {}

void reply_cache::empty(std::uint32_t place) noexcept {
  entry& old = entries_[place];
  old.parts.clear();
  if (old.charged == 0) {
    return;
  }
  charged_ -= old.charged;
  old.charged = 0;
  (old.older == none ? oldest_ : entries_[old.older].newer) = old.newer;
  (old.newer == none ? newest_ : entries_[old.newer].older) = old.older;
}

void reply_cache::keep(std::uint64_t id, reply_parts& parts, bool of_session) {
  const auto place = static_cast<std::uint32_t>(id % entries_.size());
  empty(place);
  const std::size_t bytes = bytes_of(parts);
  if (bytes > (of_session ? budget_ : largest_plain_)) {
    return;
  }
  entry& kept = entries_[place];
  kept.id = id;
  for (zmq::message_t& part : parts) {
    kept.parts.emplace_back().copy(part);  // shares the bytes
  }
  if (!of_session) {
    return;
  }
  while (charged_ + bytes > budget_) {
    empty(oldest_);
  }
  charged_ += bytes;
  kept.charged = bytes;
  kept.older = newest_;
  kept.newer = none;
  (newest_ == none ? oldest_ : entries_[newest_].newer) = place;
  newest_ = place;
}

void reply_cache::remove(std::uint64_t id) noexcept {
  if (const auto place = static_cast<std::uint32_t>(id % entries_.size()); entries_[place].id == id) {
    empty(place);
  }
}

void reply_cache::find(std::uint64_t id, reply_parts& found) {
  found.clear();
  entry& place = entries_[id % entries_.size()];
  if (place.id == id) {
    for (zmq::message_t& part : place.parts) {
      found.emplace_back().copy(part);
    }
  }
}

}  // namespace penstock

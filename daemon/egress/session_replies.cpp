#include "daemon/egress/session_replies.hpp"

namespace penstock {

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

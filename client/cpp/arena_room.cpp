#include "client/cpp/arena_room.hpp"

#include <algorithm>
#include <iterator>
#include <new>

#include "proto/message.hpp"

namespace penstock::link {

arena_room::arena_room(std::uint64_t bytes, std::pmr::memory_resource* upstream)
    : nodes_(upstream), extents_(&nodes_), gaps_(&nodes_) {
  const std::uint64_t whole = bytes / wire::place_alignment * wire::place_alignment;
  if (whole > 0) {
    extents_.emplace(0, extent{whole, 0});
    gaps_.emplace(whole, 0);
  }
}

std::optional<std::uint64_t> arena_room::take(std::uint64_t bytes) {
  if (gaps_.empty() || bytes > gaps_.rbegin()->first) {  // also what would overflow when it is rounded up
    return std::nullopt;
  }
  const std::uint64_t wanted = wire::room_for(std::max<std::uint64_t>(bytes, 1));
  const auto gap = gaps_.lower_bound({wanted, 0});
  const auto [size, offset] = *gap;
  const auto taken = extents_.find(offset);
  if (size > wanted) {
    extents_.emplace_hint(std::next(taken), offset + wanted, extent{size - wanted, 0});
    auto rest = gaps_.extract(gap);
    rest.value() = {size - wanted, offset + wanted};
    gaps_.insert(std::move(rest));
  } else {
    gaps_.erase(gap);
  }
  taken->second = {wanted, 1};
  used_ += wanted;
  return offset;
}

std::optional<std::uint64_t> arena_room::join(std::uint64_t offset, std::uint64_t bytes) {
  const auto behind = extents_.upper_bound(offset);
  if (behind == extents_.begin()) {
    return std::nullopt;
  }
  auto& [start, found] = *std::prev(behind);
  const std::uint64_t before = offset - start;
  if (found.owners == 0 || before > found.bytes || bytes > found.bytes - before) {
    return std::nullopt;
  }
  ++found.owners;
  return start;
}

void arena_room::leave(std::uint64_t offset) noexcept {
  auto left = extents_.find(offset);
  if (--left->second.owners > 0) {
    return;
  }
  used_ -= left->second.bytes;
  const auto behind = std::next(left);
  if (behind != extents_.end() && behind->second.owners == 0) {
    gaps_.erase({behind->second.bytes, behind->first});
    left->second.bytes += behind->second.bytes;
    extents_.erase(behind);
  }
  if (left != extents_.begin() && std::prev(left)->second.owners == 0) {
    const auto before = std::prev(left);
    gaps_.erase({before->second.bytes, before->first});
    before->second.bytes += left->second.bytes;
    extents_.erase(left);
    left = before;
  }
  note_gap(left);
}

void arena_room::note_gap(extents::iterator gap) noexcept try {
  gaps_.emplace(gap->second.bytes, gap->first);
} catch (const std::bad_alloc&) {  // out of use until a neighbour joins it
}

}  // namespace penstock::link

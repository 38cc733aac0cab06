#include "client/cpp/arena.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <new>
#include <stdexcept>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "client/cpp/errors.hpp"
#include "proto/message.hpp"

namespace penstock::link {

arena_allocator::arena_allocator(std::uint64_t bytes, std::pmr::memory_resource* upstream)
    : nodes_(upstream), extents_(&nodes_), gaps_(&nodes_) {
  const std::uint64_t whole = bytes / wire::place_alignment * wire::place_alignment;
  if (whole > 0) {
    extents_.emplace(0, extent{whole, 0});
    gaps_.emplace(whole, 0);
  }
}

std::optional<std::uint64_t> arena_allocator::take(std::uint64_t bytes) {
  if (gaps_.empty() || bytes > gaps_.rbegin()->first) {  // also prevents an overflow when rounding up
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

std::optional<std::uint64_t> arena_allocator::join(std::uint64_t offset, std::uint64_t bytes) {
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

void arena_allocator::leave(std::uint64_t offset) noexcept {
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

void arena_allocator::note_gap(extents::iterator gap) noexcept try {
  gaps_.emplace(gap->second.bytes, gap->first);
} catch (const std::bad_alloc&) {  // lost until an adjacent gap is merged with it
}

namespace {

void check(const file_descriptor& memory, std::uint64_t bytes) {
  constexpr int wanted = F_SEAL_SHRINK | F_SEAL_GROW;
  const int seals = ::fcntl(memory.number(), F_GET_SEALS);
  if (seals < 0) {
    throw_last_error("the seals of the shared memory");
  }
  struct stat found {};
  if (::fstat(memory.number(), &found) != 0) {
    throw_last_error("the size of the shared memory");
  }
  if ((seals & wanted) != wanted || bytes == 0 || bytes > std::numeric_limits<std::ptrdiff_t>::max() ||
      static_cast<std::uint64_t>(found.st_size) < bytes) {
    throw std::runtime_error("the shared memory is not sealed, or not of its size");
  }
}

}  // namespace

std::shared_ptr<arena> arena::map(const file_descriptor& memory, std::uint32_t number, std::uint64_t bytes) {
  check(memory, bytes);
  void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.number(), 0);
  if (at == MAP_FAILED) {
    throw_last_error("mapping the shared memory");
  }
  std::unique_ptr<arena> made;
  try {
    made.reset(new arena{{static_cast<std::byte*>(at), bytes}, number});
  } catch (const std::bad_alloc&) {
    ::munmap(at, bytes);
    throw;
  }
  return made;
}

arena::~arena() {
  ::munmap(whole_.data(), whole_.size());
}

std::uint64_t arena::used_bytes() const {
  const std::lock_guard lock{mutex_};
  return allocator_.used_bytes();
}

arena_block arena::take(std::uint64_t bytes) {
  const std::lock_guard lock{mutex_};
  const auto offset = ended_ ? std::nullopt : allocator_.take(bytes);
  return offset ? arena_block{shared_from_this(), *offset} : arena_block{};
}

bool arena::holds(std::span<const std::byte> bytes) const noexcept {
  const std::less<const std::byte*> before;
  return !before(bytes.data(), whole_.data()) && before(bytes.data(), whole_.data() + whole_.size());
}

arena_block arena::block_of(std::span<const std::byte> bytes) {
  if (!holds(bytes)) {
    return {};
  }
  const std::lock_guard lock{mutex_};
  const auto offset = allocator_.join(static_cast<std::uint64_t>(bytes.data() - whole_.data()), bytes.size());
  return offset ? arena_block{shared_from_this(), *offset} : arena_block{};
}

void arena::end() noexcept {
  const std::lock_guard lock{mutex_};
  ended_ = true;
}

void arena::leave(std::uint64_t offset) noexcept {
  const std::lock_guard lock{mutex_};
  allocator_.leave(offset);
}

}  // namespace penstock::link

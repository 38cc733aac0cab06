#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "base/descriptors.hpp"

namespace penstock::link {

/// A best-fit allocator of reference-counted blocks in an arena. Offsets and sizes are multiples of
/// wire::place_alignment; adjacent gaps are merged. Its nodes are pooled: it allocates only while the number of blocks
/// reaches a new maximum. Not thread-safe.
class arena_allocator {
 public:
  /// `bytes` is rounded down to a multiple of the alignment.
  explicit arena_allocator(std::uint64_t bytes, std::pmr::memory_resource* upstream = std::pmr::get_default_resource());

  /// The offset of a new block of at least `bytes`, with one owner; nullopt when no gap is large enough.
  [[nodiscard]] std::optional<std::uint64_t> take(std::uint64_t bytes);
  /// Adds an owner to the block that contains all of these bytes. Its offset, or nullopt when there is none.
  [[nodiscard]] std::optional<std::uint64_t> join(std::uint64_t offset, std::uint64_t bytes);
  /// Removes an owner of the block at that offset; the last one frees it.
  void leave(std::uint64_t offset) noexcept;

  /// Bytes of all blocks.
  [[nodiscard]] std::uint64_t used_bytes() const noexcept { return used_; }

 private:
  struct extent {
    std::uint64_t bytes = 0;
    std::uint32_t owners = 0;  ///< 0: a gap
  };
  using extents = std::pmr::map<std::uint64_t, extent>;

  void note_gap(extents::iterator gap) noexcept;

  std::pmr::unsynchronized_pool_resource nodes_;
  extents extents_;                                              ///< by offset; they cover the whole arena
  std::pmr::set<std::pair<std::uint64_t, std::uint64_t>> gaps_;  ///< by size, then offset
  std::uint64_t used_ = 0;
};

class arena_block;

/// A mapping of memory that is shared with the daemon. It exists as long as a block of it, also after the daemon and
/// the client have gone. Thread-safe.
class arena : public std::enable_shared_from_this<arena> {
 public:
  /// Maps `bytes` of the memory. It must be sealed against resizing, because a read beyond its end would raise SIGBUS.
  /// Throws std::system_error or std::runtime_error when it can't be mapped or is not sealed.
  [[nodiscard]] static std::shared_ptr<arena> map(const file_descriptor& memory, std::uint32_t number,
                                                  std::uint64_t bytes);
  arena(const arena&) = delete;
  arena& operator=(const arena&) = delete;
  ~arena();

  [[nodiscard]] std::uint32_t number() const noexcept { return number_; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return whole_.size(); }
  [[nodiscard]] std::uint64_t used_bytes() const;

  /// True when the bytes begin in the arena. Takes no lock.
  [[nodiscard]] bool holds(std::span<const std::byte> bytes) const noexcept;
  /// A new block of at least `bytes`; an empty one when there is no room or the arena has ended.
  [[nodiscard]] arena_block take(std::uint64_t bytes);
  /// Another owner of the block that contains all of `bytes`; an empty one when none does.
  [[nodiscard]] arena_block block_of(std::span<const std::byte> bytes);
  /// From now on nothing is allocated. The daemon's device may still write to the arena after its lease has ended: call
  /// this before any block is freed.
  void end() noexcept;

 private:
  friend class arena_block;
  arena(std::span<std::byte> whole, std::uint32_t number) : whole_(whole), number_(number), allocator_(whole.size()) {}
  void leave(std::uint64_t offset) noexcept;

  const std::span<std::byte> whole_;
  const std::uint32_t number_;
  mutable std::mutex mutex_;
  arena_allocator allocator_;
  bool ended_ = false;
};

/// An owner of a block, move-only; the last owner frees it. May be empty. Not thread-safe.
class arena_block {
 public:
  arena_block() = default;
  arena_block(arena_block&& other) noexcept : home_(std::move(other.home_)), offset_(std::exchange(other.offset_, 0)) {}
  arena_block& operator=(arena_block&& other) noexcept {
    std::swap(home_, other.home_);
    std::swap(offset_, other.offset_);
    return *this;
  }
  ~arena_block() {
    if (home_ != nullptr) {
      home_->leave(offset_);
    }
  }

  explicit operator bool() const noexcept { return home_ != nullptr; }
  [[nodiscard]] const std::shared_ptr<arena>& home() const noexcept { return home_; }
  /// Offset in the arena, in bytes.
  [[nodiscard]] std::uint64_t offset() const noexcept { return offset_; }
  [[nodiscard]] std::byte* data() const noexcept { return home_->whole_.data() + offset_; }
  /// Another owner of the same block.
  [[nodiscard]] arena_block again() const { return home_->block_of({data(), 1}); }

 private:
  friend class arena;
  arena_block(std::shared_ptr<arena> home, std::uint64_t offset) noexcept : home_(std::move(home)), offset_(offset) {}

  std::shared_ptr<arena> home_;
  std::uint64_t offset_ = 0;
};

}  // namespace penstock::link

#pragma once

#include <cstdint>
#include <map>
#include <memory_resource>
#include <optional>
#include <set>
#include <utility>

namespace penstock::link {

/// What lies where in an arena: blocks, each with a number of owners, and the gaps between them. Offsets and sizes are
/// multiples of wire::place_alignment. The smallest gap that is large enough is taken, and gaps that touch become one.
/// Once it has held as many blocks as it ever will it allocates nothing. Thread: one at a time.
class arena_room {
 public:
  /// All of it is one gap. `bytes` is rounded down to a multiple of the alignment.
  explicit arena_room(std::uint64_t bytes, std::pmr::memory_resource* upstream = std::pmr::get_default_resource());

  /// The offset of a new block of at least so many bytes, with one owner; nullopt when no gap is large enough.
  [[nodiscard]] std::optional<std::uint64_t> take(std::uint64_t bytes);
  /// The block that holds all of these bytes, which has one more owner now; nullopt when there is none.
  [[nodiscard]] std::optional<std::uint64_t> join(std::uint64_t offset, std::uint64_t bytes);
  /// The block at that offset has one owner less. Without any it is a gap.
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
  extents extents_;                                              ///< by offset, without anything between them
  std::pmr::set<std::pair<std::uint64_t, std::uint64_t>> gaps_;  ///< size and offset of each
  std::uint64_t used_ = 0;
};

}  // namespace penstock::link

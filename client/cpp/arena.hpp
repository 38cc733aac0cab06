#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "client/cpp/arena_room.hpp"
#include "client/cpp/file_descriptor.hpp"

namespace penstock::link {

class arena_block;

/// Memory that the daemon reads and writes too, mapped here as long as anybody holds a block of it, whatever becomes of
/// the daemon and of the client. Threads: any; its lock is held for the books alone.
class arena : public std::enable_shared_from_this<arena> {
 public:
  /// Maps `bytes` of the memory, which has to be sealed against another size: else a read could end the process.
  /// Throws std::system_error or std::runtime_error when it can't be mapped or is not sealed.
  [[nodiscard]] static std::shared_ptr<arena> map(const file_descriptor& memory, std::uint32_t number,
                                                  std::uint64_t bytes);
  arena(const arena&) = delete;
  arena& operator=(const arena&) = delete;
  ~arena();

  [[nodiscard]] std::uint32_t number() const noexcept { return number_; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return whole_.size(); }
  [[nodiscard]] std::uint64_t used_bytes() const;

  /// Whether they begin in it. Costs no lock.
  [[nodiscard]] bool holds(std::span<const std::byte> bytes) const noexcept;
  /// A block of so many bytes, rounded up; an empty one when there is no room, and once it has ended.
  [[nodiscard]] arena_block take(std::uint64_t bytes);
  /// Another owner of the block that holds all of `bytes`; an empty one when none does.
  [[nodiscard]] arena_block block_of(std::span<const std::byte> bytes);
  /// No room in it is given out from now on. Where the daemon takes nothing in it any more its device may still write
  /// there, and so this comes before any goes back.
  void end() noexcept;

 private:
  friend class arena_block;
  arena(std::span<std::byte> whole, std::uint32_t number) : whole_(whole), number_(number), room_(whole.size()) {}
  void leave(std::uint64_t offset) noexcept;

  const std::span<std::byte> whole_;
  const std::uint32_t number_;
  mutable std::mutex mutex_;
  arena_room room_;
  bool ended_ = false;
};

/// One owner of a block; the room goes back with the last. An empty one owns nothing. Threads: any, one at a time.
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
  /// Where it begins in its arena, in bytes.
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

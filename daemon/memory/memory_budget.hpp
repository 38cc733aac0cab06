#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <utility>

namespace penstock {

/// The host memory, in bytes, that peers can make the daemon hold. Everything that grows with what they do is granted
/// from it: clients' credits, replies under way, arenas. Threads: any. Must outlive all that is granted from it.
class memory_budget {
 public:
  explicit memory_budget(std::size_t limit) noexcept : limit_(limit) {}
  memory_budget(const memory_budget&) = delete;
  memory_budget& operator=(const memory_budget&) = delete;

  /// False when so much is not left.
  [[nodiscard]] bool take(std::size_t bytes) noexcept;
  /// Takes it even if it is not left.
  void charge(std::size_t bytes) noexcept { used_.fetch_add(bytes, std::memory_order_relaxed); }
  void give_back(std::size_t bytes) noexcept { used_.fetch_sub(bytes, std::memory_order_relaxed); }

  [[nodiscard]] std::size_t limit() const noexcept { return limit_; }
  [[nodiscard]] std::size_t used() const noexcept { return used_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::size_t left() const noexcept;

 private:
  const std::size_t limit_;
  std::atomic<std::size_t> used_{0};
};

/// Bytes of a budget, which go back to it when their owner ends. Thread: its owner's.
class memory_grant {
 public:
  explicit memory_grant(memory_budget& from) noexcept : from_(&from) {}
  memory_grant(memory_grant&& other) noexcept : from_(other.from_), bytes_(std::exchange(other.bytes_, 0)) {}
  memory_grant& operator=(memory_grant&& other) noexcept {
    std::swap(from_, other.from_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~memory_grant() { release(); }

  /// Is of so many bytes from here on. False, and as before, when the budget does not have them.
  [[nodiscard]] bool resize(std::size_t bytes) noexcept {
    if (bytes > bytes_ && !from_->take(bytes - bytes_)) {
      return false;
    }
    from_->give_back(bytes_ - std::min(bytes, bytes_));
    bytes_ = bytes;
    return true;
  }
  void release() noexcept { from_->give_back(std::exchange(bytes_, 0)); }

  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  memory_budget* from_;
  std::size_t bytes_ = 0;
};

}  // namespace penstock

#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <utility>

namespace penstock {

/// The host memory, in bytes, that peers can make the daemon hold: clients' credits, replies under way, arenas.
/// Threads: any. Must outlive its grants.
class memory_budget {
 public:
  explicit memory_budget(std::size_t limit) noexcept : limit_(limit) {}
  memory_budget(const memory_budget&) = delete;
  memory_budget& operator=(const memory_budget&) = delete;

  /// False when less than that is left.
  [[nodiscard]] bool take(std::size_t bytes) noexcept {
    std::size_t now = used_.load(std::memory_order_relaxed);
    do {
      if (now > limit_ || bytes > limit_ - now) {
        return false;
      }
    } while (!used_.compare_exchange_weak(now, now + bytes, std::memory_order_relaxed));
    return true;
  }
  /// Takes the bytes even if they are not left.
  void charge(std::size_t bytes) noexcept { used_.fetch_add(bytes, std::memory_order_relaxed); }
  void give_back(std::size_t bytes) noexcept { used_.fetch_sub(bytes, std::memory_order_relaxed); }

  [[nodiscard]] std::size_t limit() const noexcept { return limit_; }
  [[nodiscard]] std::size_t used() const noexcept { return used_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::size_t left() const noexcept { return limit_ - std::min(used(), limit_); }

 private:
  const std::size_t limit_;
  std::atomic<std::size_t> used_{0};
};

/// Owns bytes of a budget, and gives them back at its end. Thread: its owner's.
class memory_grant {
 public:
  explicit memory_grant(memory_budget& budget) noexcept : budget_(&budget) {}
  memory_grant(memory_grant&& other) noexcept : budget_(other.budget_), bytes_(std::exchange(other.bytes_, 0)) {}
  memory_grant& operator=(memory_grant&& other) noexcept {
    std::swap(budget_, other.budget_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~memory_grant() { release(); }

  /// False, and no change, when the budget does not have the bytes.
  [[nodiscard]] bool resize(std::size_t bytes) noexcept {
    if (bytes > bytes_ && !budget_->take(bytes - bytes_)) {
      return false;
    }
    budget_->give_back(bytes_ - std::min(bytes, bytes_));
    bytes_ = bytes;
    return true;
  }
  void release() noexcept { budget_->give_back(std::exchange(bytes_, 0)); }

  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  memory_budget* budget_;
  std::size_t bytes_ = 0;
};

}  // namespace penstock

#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace penstock::live {

/// Lets a source send, or keeps it waiting: sinks that take nothing more close it, and say how much a source may have
/// in flight at most, so that they have room for its results. Any thread.
class source_gate {
 public:
  /// For each `close` there is an `open`.
  void close() noexcept { closed_.fetch_add(1, std::memory_order_acq_rel); }
  void open() {
    if (closed_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      const std::lock_guard lock(mutex_);
      if (wake_) {
        wake_();
      }
    }
  }
  [[nodiscard]] bool is_open() const noexcept { return closed_.load(std::memory_order_acquire) == 0; }
  /// Bytes that the source may have in flight, beside its first requests.
  [[nodiscard]] std::size_t window() const noexcept { return window_.load(std::memory_order_relaxed); }
  /// What `owner` has room for; SIZE_MAX: anything.
  void set_window(const void* owner, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    windows_[owner] = bytes;
    std::size_t least = SIZE_MAX;
    for (const auto& [each, its] : windows_) {
      least = std::min(least, its);
    }
    window_.store(least, std::memory_order_relaxed);
    if (bytes == SIZE_MAX) {
      windows_.erase(owner);
    }
  }
  /// `wake` is called when it opens, in place of the one before; it neither blocks nor throws.
  void attach(std::function<void()> wake) {
    const std::lock_guard lock(mutex_);
    wake_ = std::move(wake);
  }

 private:
  std::atomic<int> closed_{0};
  std::atomic<std::size_t> window_{SIZE_MAX};
  std::map<const void*, std::size_t> windows_;
  std::mutex mutex_;
  std::function<void()> wake_;
};

/// The gates of the daemon's sources, by their names. One is made when it is first asked for, and stays. Any thread.
class source_gates {
 public:
  [[nodiscard]] std::shared_ptr<source_gate> of(const std::string& source) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<source_gate>& gate = gates_[source];
    if (gate == nullptr) {
      gate = std::make_shared<source_gate>();
    }
    return gate;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<source_gate>> gates_;
};

}  // namespace penstock::live

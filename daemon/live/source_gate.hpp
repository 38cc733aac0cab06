#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace penstock::live {

/// Lets a source send, or keeps it waiting: sinks that take nothing more close it. Any thread.
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
  /// `wake` is called when it opens, in place of the one before; it neither blocks nor throws.
  void attach(std::function<void()> wake) {
    const std::lock_guard lock(mutex_);
    wake_ = std::move(wake);
  }

 private:
  std::atomic<int> closed_{0};
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

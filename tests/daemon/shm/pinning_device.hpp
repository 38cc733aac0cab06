#pragma once

#include <atomic>
#include <map>
#include <mutex>

#include "tests/support/manual_device.hpp"

namespace penstock::testing {

/// A device that knows what is pinned, and can refuse to pin.
class pinning_device : public manual_device {
 public:
  void pin(std::byte* memory, std::size_t bytes) override {
    if (refuses) {
      throw device_error("cannot pin");
    }
    const std::lock_guard lock(mutex_);
    pinned_[memory] = bytes;
  }
  void unpin(std::byte* memory) noexcept override {
    const std::lock_guard lock(mutex_);
    pinned_.erase(memory);
  }
  [[nodiscard]] std::size_t pinned_bytes() {
    const std::lock_guard lock(mutex_);
    std::size_t sum = 0;
    for (const auto& [memory, bytes] : pinned_) {
      sum += bytes;
    }
    return sum;
  }

  std::atomic<bool> refuses{false};

 private:
  std::mutex mutex_;
  std::map<std::byte*, std::size_t> pinned_;
};

}  // namespace penstock::testing

#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>

#include "daemon/shm/segment.hpp"
#include "tests/support/manual_device.hpp"

namespace penstock::testing {

/// Memory of a file, in place of a device's.
class exported_file final : public exported_memory {
 public:
  explicit exported_file(std::size_t bytes) : exported_memory(bytes), memory_(bytes) {}
  [[nodiscard]] std::byte* data() const noexcept override { return memory_.data(); }
  [[nodiscard]] int descriptor() const noexcept override { return memory_.descriptor(); }
  void close_descriptor() noexcept override { memory_.close_descriptor(); }

 private:
  sealed_memory memory_;
};

/// A device that knows what is pinned, and can refuse to pin or to export.
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
  [[nodiscard]] std::unique_ptr<exported_memory> take_exported(std::size_t bytes) override {
    if (refuses) {
      throw device_error("cannot export");
    }
    return std::make_unique<exported_file>(bytes);
  }

  std::mutex mutex_;
  std::map<std::byte*, std::size_t> pinned_;
};

}  // namespace penstock::testing

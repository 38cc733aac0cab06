#pragma once

#include <atomic>

#include "kernels/fault.hpp"

namespace penstock {

/// The first fault that a device met; it never goes away. Written and read by every thread of the device.
class sticky_fault {
 public:
  [[nodiscard]] fault get() const noexcept { return {name_.load(std::memory_order_seq_cst)}; }

  /// Keeps `met` if there was none before. Returns whether it was the first.
  bool set(fault met) noexcept {
    const char* none = nullptr;
    return name_.compare_exchange_strong(none, met.name, std::memory_order_seq_cst);
  }

 private:
  std::atomic<const char*> name_{nullptr};
};

}  // namespace penstock

#pragma once

#include <cstddef>

namespace penstock {

/// Memory that another process can map too, and whose size nobody can change any more: what is inside stays inside.
/// Every page is there from the start.
class sealed_memory {
 public:
  /// Rounded up to whole pages. Throws std::system_error.
  explicit sealed_memory(std::size_t bytes);
  ~sealed_memory();
  sealed_memory(const sealed_memory&) = delete;
  sealed_memory& operator=(const sealed_memory&) = delete;

  [[nodiscard]] std::byte* data() const noexcept { return memory_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// To be sent to the other process; -1 once it is closed here.
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  void close_descriptor() noexcept;

 private:
  std::size_t bytes_;
  int descriptor_ = -1;
  std::byte* memory_ = nullptr;
};

}  // namespace penstock

#pragma once

namespace penstock::link {

/// Wakes one thread that polls `descriptor()`. Threads: `ring` any, `silence` the one that waits.
class doorbell {
 public:
  /// Throws std::system_error when the system gives no descriptor.
  doorbell();
  doorbell(const doorbell&) = delete;
  doorbell& operator=(const doorbell&) = delete;
  ~doorbell();

  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  void ring() noexcept;
  void silence() noexcept;

 private:
  int descriptor_;
};

}  // namespace penstock::link

#pragma once

namespace penstock::bench {

/// Lets a thread sleep until another says that something happened.
class wake_up {
 public:
  wake_up();
  wake_up(const wake_up&) = delete;
  wake_up& operator=(const wake_up&) = delete;
  ~wake_up();

  /// From any thread.
  void ring() noexcept;
  /// Returns at once when it rang since the last rest; false when it has not rung for `seconds`.
  [[nodiscard]] bool rest(int seconds);

 private:
  int event_;
};

}  // namespace penstock::bench

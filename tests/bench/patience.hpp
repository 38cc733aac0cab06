#pragma once

namespace penstock::bench {

/// Ends a wait in which nothing happens, which a failed device would make endless.
class patience {
 public:
  static constexpr int seconds = 10;

  /// Something happened.
  void renew() noexcept { turns_ = 0; }
  /// One look at what has not happened. When nothing has for so many seconds, it ends.
  void turn() {
    if (++turns_ % turns_a_look == 0) {
      look();
    }
  }
  /// Throws std::runtime_error with the device's error, if it has one.
  [[noreturn]] static void end();

 private:
  static constexpr unsigned long turns_a_look = 1UL << 16U;
  void look();

  unsigned long turns_ = 0;
  double first_look_ = 0;
};

}  // namespace penstock::bench

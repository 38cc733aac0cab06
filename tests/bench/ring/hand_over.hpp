#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <thread>

namespace penstock::bench {

/// Pointers from one thread to another, in order, at most Places at a time. Both wait by yielding.
template <typename Pointer, std::size_t Places>
class hand_over {
 public:
  /// The giver: never more than Places that have not been taken; beyond that it waits.
  void put(Pointer given) noexcept {
    std::atomic<Pointer>& place = places_[put_++ % Places];
    while (place.load(std::memory_order_acquire) != nullptr) {
      std::this_thread::yield();
    }
    place.store(given, std::memory_order_release);
  }
  /// The taker.
  [[nodiscard]] Pointer take() noexcept {
    for (;;) {
      if (Pointer const given = look(); given != nullptr) {
        return given;
      }
      std::this_thread::yield();
    }
  }
  /// The taker, which does not wait: nullptr when there is none.
  [[nodiscard]] Pointer look() noexcept {
    std::atomic<Pointer>& place = places_[taken_ % Places];
    Pointer const given = place.load(std::memory_order_acquire);
    if (given != nullptr) {
      place.store(nullptr, std::memory_order_release);
      ++taken_;
    }
    return given;
  }

 private:
  std::array<std::atomic<Pointer>, Places> places_{};  // each written by the giver, and by the taker with nullptr
  std::size_t put_ = 0;                                // the giver's
  std::size_t taken_ = 0;                              // the taker's
};

}  // namespace penstock::bench

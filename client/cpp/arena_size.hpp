#pragma once

#include <algorithm>
#include <cstdint>

namespace penstock::link {

/// How much memory to ask the daemon for: little at first, more once that has proved too little, and less where there
/// is no room for so much. What one client does not need is there for others. Thread: one at a time.
class arena_size {
 public:
  static constexpr std::uint64_t smallest = std::uint64_t{64} << 10U;

  /// `first`: what to begin with, where that is enough for two requests.
  explicit arena_size(std::uint64_t first) noexcept : first_(first) {}

  /// A request of `need` bytes has found no room in the `held` bytes that there are; 0 for either: none.
  void want(std::uint64_t need, std::uint64_t held) noexcept {
    need_ = need;
    held_ = held;
    divisor_ = 1;
  }
  /// What was held is gone, and what has been refused is forgotten.
  void start_anew() noexcept { want(need_, 0); }
  /// What to ask for, where there may be `most`; 0 when nothing would be won.
  [[nodiscard]] std::uint64_t next(std::uint64_t most) noexcept {
    if (held_ > 0 && (most <= held_ || most < need_)) {
      return 0;
    }
    const std::uint64_t base = std::max(need_, held_);
    const std::uint64_t wanted = base > most / 2 ? most : std::min(most, std::max(first_, 2 * base));
    const std::uint64_t least = std::min(most, std::max({need_, held_ + 1, smallest}));
    const std::uint64_t asked = std::clamp(wanted / divisor_, least, most);
    may_be_less_ = asked > least;
    return asked;
  }
  /// There was no room for that. Whether less may do.
  [[nodiscard]] bool halve() noexcept {
    divisor_ *= 2;
    return may_be_less_;
  }

 private:
  std::uint64_t first_;
  std::uint64_t need_ = 0;
  std::uint64_t held_ = 0;
  std::uint64_t divisor_ = 1;
  bool may_be_less_ = false;
};

}  // namespace penstock::link

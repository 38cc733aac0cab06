#pragma once

#include <algorithm>
#include <cstdint>

namespace penstock {

/// Which batches of a plan are brief, by their steps (frames times their leading extent): as many as the warm-up found,
/// and fewer for a while when one of them has taken longer after all, with other values or another length. Thread: the
/// shard.
class briefness {
 public:
  explicit briefness(std::int64_t measured = 0) noexcept : measured_(measured), allowed_(measured) {}

  /// Of a batch that is about to be launched.
  [[nodiscard]] bool holds(std::int64_t steps) noexcept {
    if (allowed_ < measured_ && ++launches_ == launches_to_try_more) {
      launches_ = 0;
      allowed_ = std::clamp(2 * allowed_, std::int64_t{1}, measured_);
    }
    return steps <= allowed_;
  }
  /// It was brief, and took longer.
  void failed(std::int64_t steps) noexcept {
    launches_ = 0;
    allowed_ = std::min(allowed_, steps / 2);
  }

 private:
  static constexpr std::uint32_t launches_to_try_more = 1024;

  std::int64_t measured_;
  std::int64_t allowed_;
  std::uint32_t launches_ = 0;  // since `allowed_` was changed
};

}  // namespace penstock

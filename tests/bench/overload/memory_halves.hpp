#pragma once

#include <vector>

namespace penstock::bench {

/// The most memory in each half of an overload.
struct memory_halves {
  double first_mib = 0;
  double second_mib = 0;

  [[nodiscard]] double growth() const noexcept { return second_mib / first_mib; }
};
/// Of samples at `seconds` (from its begin) of an overload that lasted `span` seconds. Those before and after it don't
/// count.
[[nodiscard]] memory_halves halves_of(const std::vector<double>& seconds, const std::vector<double>& mib, double span);

/// How much more the second half may have than the first. A hundredth is the allocator's own coming and going, as in
/// `steady`. And the sockets read ahead of a shard that another process keeps from its core, for some scheduler's
/// turns: what comes in within 50 ms. A daemon that keeps what it can't do keeps several times that within a half, as a
/// half is at least 500 ms long and the excess is half of what comes in.
[[nodiscard]] double memory_margin_mib(double first_mib, double mib_per_second);

}  // namespace penstock::bench

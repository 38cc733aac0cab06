#include "tests/bench/operators/toeplitz.hpp"

#include <algorithm>
#include <bit>

namespace penstock::bench {

toeplitz toeplitz_of(const std::vector<float>& taps, std::int64_t size) {
  const auto elements = static_cast<std::size_t>(size * size);
  toeplitz made{.size = size, .own = std::vector<float>(elements), .before = std::vector<float>(elements)};
  const auto count = static_cast<std::int64_t>(taps.size());
  for (std::int64_t column = 0; column < size; ++column) {
    for (std::int64_t row = 0; row < size; ++row) {
      const auto at = static_cast<std::size_t>(column * size + row);
      const std::int64_t tap = row - column;
      if (tap >= 0 && tap < count) {
        made.own[at] = taps[static_cast<std::size_t>(tap)];
      }
      if (tap + size < count) {
        made.before[at] = taps[static_cast<std::size_t>(tap + size)];
      }
    }
  }
  return made;
}

std::int64_t toeplitz_size(std::size_t taps) noexcept {
  return static_cast<std::int64_t>(std::max<std::size_t>(64, std::bit_ceil(taps)));
}

}  // namespace penstock::bench

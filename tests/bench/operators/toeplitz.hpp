#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace penstock::bench {

/// A filter as products of matrices: a row of samples cut into columns of `size`, each column of results is
/// `own` · its samples + `before` · the samples of the column before. Both are size × size, column by column, and have
/// the filter's taps along their diagonals.
struct toeplitz {
  std::int64_t size = 0;
  std::vector<float> own;
  std::vector<float> before;
};

/// Of y[m] = Σ taps[k] · x[m - k]. `size` is at least as many as there are taps, less one.
[[nodiscard]] toeplitz toeplitz_of(const std::vector<float>& taps, std::int64_t size);
/// The least power of two, at least 64, that a filter of so many taps can be cut into.
[[nodiscard]] std::int64_t toeplitz_size(std::size_t taps) noexcept;

}  // namespace penstock::bench

#pragma once

#include <cstddef>
#include <vector>

namespace penstock::bench {

/// The largest difference of two lists of numbers, relative to the largest number expected. Infinite unless both are as
/// long, not empty, finite, and something else than 0 was expected.
[[nodiscard]] double difference_of(const std::vector<float>& made, const std::vector<float>& expected);

/// Every `step`th number from `first` on, each times `scale`.
[[nodiscard]] std::vector<float> taken_from(const std::vector<float>& all, std::size_t first, std::size_t step,
                                            float scale = 1);

}  // namespace penstock::bench

#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace penstock::bench {

/// Work of any size for a benchmark: a correlation with so many taps, as the sum, so that its cost is taps × samples.
/// The taps are small and of random sign: what comes out is about as large as what goes in, through any number of
/// stages.
struct matched_filter {
  std::size_t taps = 1;

  [[nodiscard]] std::vector<double> values() const;
  /// A stage of that name for a configuration; its output has the input's shape.
  [[nodiscard]] std::string stage(const std::string& name) const;
};

}  // namespace penstock::bench

#pragma once

#include <optional>
#include <vector>

namespace penstock::bench {

/// What is hoped of a throughput as x grows.
enum class expectation {
  grows,  ///< in proportion to x: streams, shards, bytes a second with the size of a frame
  holds,  ///< stays: clients and pipelines that share the same load
};

/// The first x at which it bends; none when it never does.
///
/// `grows`: the first step that gains less than half of what proportion would give, y[n] < y[n-1] (1 + (x[n]/x[n-1] −
/// 1) / 2). `holds`: the first x whose y is below two thirds of the most before it, so that a request costs over half
/// as much again. x ascends.
[[nodiscard]] std::optional<double> bend_of(const std::vector<double>& x, const std::vector<double>& y,
                                            expectation hoped);

}  // namespace penstock::bench

#pragma once

#include <cstddef>

namespace penstock::bench {

/// What a shard's thread pays for what it always remembers of a batch of so many requests of one frame: its place in
/// the timeline, and its requests' times in the histograms. The recorder alone, without a device's events, over more
/// slots and requests than a core's first cache holds; in nanoseconds, the mean of so many batches.
[[nodiscard]] double nanoseconds_to_keep(std::size_t requests, std::size_t batches);

}  // namespace penstock::bench

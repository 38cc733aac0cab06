#pragma once

#include <cstddef>

namespace penstock {

/// How much memory clients share with the daemon now, also what is still in use by their last requests; among the
/// bytes, also what clients have kept after they ended its lease.
struct shared_memory_use {
  std::size_t arenas = 0;
  std::size_t bytes = 0;
};

}  // namespace penstock

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace penstock {

/// What a ticket is good for.
struct arena_order {
  std::uint32_t shard = 0;
  std::string client;  ///< the shard's number for it
  /// By which the shard knows it. Who says GOODBYE leaves its tickets behind.
  std::uint32_t incarnation = 0;
  std::size_t bytes = 0;
};

}  // namespace penstock

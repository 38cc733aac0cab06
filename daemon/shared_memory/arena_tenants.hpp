#pragma once

#include <cstdint>
#include <functional>

#include "daemon/shared_memory/arena_order.hpp"
#include "daemon/shared_memory/client_arena.hpp"

namespace penstock {

/// The shards, as the keeper of arenas needs them. Threads: the keeper's; what is asked is done on the shard's.
class arena_tenants {
 public:
  arena_tenants() = default;
  arena_tenants(const arena_tenants&) = delete;
  arena_tenants& operator=(const arena_tenants&) = delete;
  virtual ~arena_tenants() = default;

  /// The device that shard works on.
  [[nodiscard]] virtual device& device_of(std::uint32_t shard) = 0;
  /// Gives the arena's first use to the client that ordered it; `done(whether)` is called on its shard's thread, or
  /// never, when the shard has ended. False: there is no such client any more, and the use was dropped.
  virtual void admit(const arena_order& by, client_arena& what, std::function<void(bool)> done) = 0;
  /// From then on no client of the shard may name that arena.
  virtual void evict(std::uint32_t shard, std::uint32_t arena) = 0;
};

}  // namespace penstock

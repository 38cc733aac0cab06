#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "daemon/admin/shard_thread.hpp"
#include "daemon/shared_memory/arena_tenants.hpp"

namespace penstock {

/// The shards as the keeper of arenas knows them: whose clients get its memory. Threads: the keeper's.
class shard_tenants final : public arena_tenants {
 public:
  /// `devices`: by shard.
  shard_tenants(std::deque<shard_thread>& shards, std::vector<device*> devices)
      : shards_(shards), devices_(std::move(devices)) {}

  [[nodiscard]] device& device_of(std::uint32_t shard) override { return *devices_[shard]; }
  void admit(const arena_order& by, client_arena& what, std::function<void(bool)> done) override {
    shards_[by.shard].ask([by, &what, done = std::move(done)](shard& on) { done(on.admit_arena(by, what)); });
  }
  void evict(std::uint32_t number, std::uint32_t arena) override {
    shards_[number].ask([arena](shard& on) { on.evict_arena(arena); });
  }

 private:
  std::deque<shard_thread>& shards_;
  std::vector<device*> devices_;
};

}  // namespace penstock

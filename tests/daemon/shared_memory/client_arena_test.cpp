#include "daemon/shared_memory/client_arena.hpp"

#include <memory>

#include <gtest/gtest.h>

#include "tests/daemon/shared_memory/pinning_device.hpp"

namespace penstock {
namespace {

class last_owner : public arena_owner {
 public:
  void take_back(client_arena& /*unused*/) noexcept override { ++taken_back; }
  int taken_back = 0;
};

TEST(ClientArena, IsPinnedAsLongAsItIsThere) {
  testing::pinning_device device;
  last_owner owner;
  {
    const client_arena arena(7, 4096, device, owner);
    EXPECT_EQ(arena.number(), 7U);
    EXPECT_EQ(device.pinned_bytes(), 4096U);
  }
  EXPECT_EQ(device.pinned_bytes(), 0U);
}

TEST(ClientArena, GoesBackWithItsLastUse) {
  testing::pinning_device device;
  last_owner owner;
  client_arena arena(7, 4096, device, owner);
  arena.use();
  arena.use();
  arena.drop();
  arena.drop();
  EXPECT_EQ(owner.taken_back, 0);
  arena.drop();
  EXPECT_EQ(owner.taken_back, 1);
}

TEST(ClientArena, ContainsWhatLiesInsideAndNothingElse) {
  testing::pinning_device device;
  last_owner owner;
  const client_arena arena(7, 4096, device, owner);
  EXPECT_TRUE(arena.contains(0, 4096));
  EXPECT_TRUE(arena.contains(4096, 0));
  EXPECT_TRUE(arena.contains(4095, 1));
  EXPECT_FALSE(arena.contains(4095, 2));
  EXPECT_FALSE(arena.contains(4097, 0));
  EXPECT_FALSE(arena.contains(0, 4097));
  EXPECT_FALSE(arena.contains(UINT64_MAX, 2));
  EXPECT_FALSE(arena.contains(2, UINT64_MAX));
}

}  // namespace
}  // namespace penstock

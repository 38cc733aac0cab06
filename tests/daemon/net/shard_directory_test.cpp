#include "daemon/net/shard_directory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock {
namespace {

shard_directory directory_of(std::size_t shards) {
  return shard_directory(endpoints_of_all({"tcp://127.0.0.1:7600"}, shards));
}

/// A client that goes where the front door sends it.
std::uint32_t come(shard_directory& directory, const std::string& identity) {
  const std::uint32_t shard = directory.choose(0, identity);
  directory.arrived(shard, identity);
  return shard;
}

TEST(ShardDirectory, SpreadsClientsThatComeOneAfterTheOther) {
  shard_directory shards = directory_of(3);
  std::vector<std::size_t> clients(3, 0);
  for (int client = 0; client < 30; ++client) {
    ++clients[come(shards, std::to_string(client))];
  }
  EXPECT_THAT(clients, ::testing::Each(10U));
}

TEST(ShardDirectory, SpreadsClientsThatComeAtOnce) {
  shard_directory shards = directory_of(3);
  std::vector<std::size_t> sent(3, 0);
  for (int client = 0; client < 30; ++client) {
    const std::string identity = std::to_string(client);
    const std::uint32_t shard = shards.choose(0, identity);
    ++sent[shard];
    if (shard == 0) {  // it is there already; the others are on their way
      shards.arrived(0, identity);
    }
  }
  EXPECT_THAT(sent, ::testing::Each(10U));
}

// `penstock ping`, a health check, somebody's `penstock info`.
TEST(ShardDirectory, IsNotMisledByThoseThatOnlyLookIn) {
  shard_directory shards = directory_of(2);
  std::vector<std::size_t> clients(2, 0);
  for (int client = 0; client < 20; ++client) {
    ++clients[come(shards, std::to_string(client))];
    shards.left(come(shards, "ping"));
  }
  EXPECT_THAT(clients, ::testing::Each(10U));
}

TEST(ShardDirectory, FillsUpWhereClientsHaveLeft) {
  shard_directory shards = directory_of(2);
  for (int client = 0; client < 8; ++client) {
    (void)come(shards, std::to_string(client));
  }
  for (int client = 0; client < 4; ++client) {
    shards.left(1);
  }
  for (int client = 8; client < 12; ++client) {
    EXPECT_EQ(come(shards, std::to_string(client)), 1U);
  }
}

TEST(ShardDirectory, DoesNotCountThoseThatNeverArrive) {
  shard_directory shards = directory_of(2);
  for (int client = 0; client < 10; ++client) {
    const std::string lost = "lost " + std::to_string(client);
    (void)shards.choose(0, lost);
    shards.missed(lost);
  }
  const std::uint32_t first = come(shards, "a");
  EXPECT_EQ(come(shards, "b"), 1 - first);
}

TEST(ShardDirectory, CountsAClientThatDoesNotFollowWhereItIs) {
  shard_directory shards = directory_of(2);
  (void)come(shards, "a");
  EXPECT_EQ(shards.choose(0, "b"), 1U);
  shards.arrived(0, "b");
  EXPECT_EQ(come(shards, "c"), 1U);
  EXPECT_EQ(come(shards, "d"), 1U);
}

TEST(ShardDirectory, LetsOtherShardsRecommendThemselves) {
  shard_directory shards = directory_of(3);
  EXPECT_EQ(shards.choose(2, "a"), 2U);
  EXPECT_EQ(shards.choose(2, "b"), 2U);
}

}  // namespace
}  // namespace penstock

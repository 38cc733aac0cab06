#include "daemon/shm/lease.hpp"

#include <memory>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

namespace penstock {
namespace {

class PendingPeers : public ::testing::Test {
 protected:
  /// Adds so many of a user, for whom there is room.
  void fill(std::size_t count, std::uint32_t user) {
    for (std::size_t each = 0; each < count; ++each) {
      EXPECT_EQ(pending_.surplus(user), nullptr) << each;
      all_.push_back(std::make_shared<arena_lease>(arena_lease::socket(io_), arena_lease::events{}));
      pending_.add(*all_.back(), user);
    }
  }

  boost::asio::io_context io_;
  std::vector<std::shared_ptr<arena_lease>> all_;
  pending_peers pending_;
};

TEST_F(PendingPeers, HasRoomForSoManyOfAUserWhoseOldestMakesRoom) {
  fill(1, 7);
  fill(pending_peers::most_of_a_user, 1000);
  EXPECT_EQ(pending_.surplus(1000), all_[1].get());
  EXPECT_EQ(pending_.surplus(7), nullptr) << "another user's do not count";
  pending_.remove(*all_[1]);
  EXPECT_EQ(pending_.surplus(1000), nullptr);
}

TEST_F(PendingPeers, HasTheUserWithTheMostMakeRoomWhenAllPlacesAreTaken) {
  fill(1, 7);
  for (std::uint32_t user = 0; user < 3; ++user) {
    fill(pending_peers::most_of_a_user, 1000 + user);
  }
  for (std::uint32_t user = 0; user < pending_peers::most_of_a_user - 1; ++user) {
    fill(1, 2000 + user);
  }
  EXPECT_EQ(pending_.surplus(8), all_[1].get());
}

}  // namespace
}  // namespace penstock

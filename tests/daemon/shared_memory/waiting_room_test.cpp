#include "daemon/shared_memory/waiting_room.hpp"

#include <memory>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include "daemon/shared_memory/arena_lease.hpp"

namespace penstock {
namespace {

class WaitingRoom : public ::testing::Test {
 protected:
  /// That many of a user come, for whom there is room.
  void fill(std::size_t count, std::uint32_t user) {
    for (std::size_t each = 0; each < count; ++each) {
      EXPECT_EQ(room_.surplus(user), nullptr) << each;
      all_.push_back(std::make_shared<arena_lease>(arena_lease::socket(io_), arena_lease::events{}));
      room_.enter(*all_.back(), user);
    }
  }

  boost::asio::io_context io_;
  std::vector<std::shared_ptr<arena_lease>> all_;
  waiting_room room_;
};

TEST_F(WaitingRoom, HasRoomForSoManyOfAUserWhoseOldestMakesRoom) {
  fill(1, 7);
  fill(waiting_room::most_of_a_user, 1000);
  EXPECT_EQ(room_.surplus(1000), all_[1].get());
  EXPECT_EQ(room_.surplus(7), nullptr) << "another user's do not count";
  room_.leave(*all_[1]);
  EXPECT_EQ(room_.surplus(1000), nullptr);
}

TEST_F(WaitingRoom, HasTheUserWithTheMostMakeRoomWhenAllPlacesAreTaken) {
  fill(1, 7);
  for (std::uint32_t user = 0; user < 3; ++user) {
    fill(waiting_room::most_of_a_user, 1000 + user);
  }
  for (std::uint32_t user = 0; user < waiting_room::most_of_a_user - 1; ++user) {
    fill(1, 2000 + user);
  }
  EXPECT_EQ(room_.surplus(8), all_[1].get());
}

}  // namespace
}  // namespace penstock

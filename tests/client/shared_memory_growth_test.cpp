#include <thread>

#include <gmock/gmock.h>

#include "tests/client/shared_rig.hpp"

namespace penstock::test {
namespace {

using ::testing::HasSubstr;
using wire::message_type;

class SharedMemoryGrowth : public shared_rig {};

TEST_F(SharedMemoryGrowth, WhereItIsRefusedNobodyNotices) {
  connect();
  auto future = submit();
  EXPECT_EQ(refuse_attach("no more"), scripted_arena::usual_bytes);
  daemon_.result(expect_submit());
  expect_right(future.get());
  settle();
  EXPECT_THAT(client_->shared_memory().absence, HasSubstr("no more"));
}

TEST_F(SharedMemoryGrowth, WhatFindsNoRoomGoesOverTheSocket) {
  connect_shared();
  const auto all = client_->lend(scripted_arena::usual_bytes);
  ASSERT_TRUE(all);
  EXPECT_FALSE(client_->lend(1));
  auto future = submit();
  daemon_.result(expect_submit());
  expect_right(future.get());
  EXPECT_EQ(client_->counters().unshared, 1U) << "nothing falls back in silence";
  auto other = submit(small);
  daemon_.result(expect_submit());
  other.get();
  EXPECT_EQ(client_->counters().unshared, 1U) << "this one was not to be shared";
}

TEST_F(SharedMemoryGrowth, WhereTheDaemonHasNoRoomForSoMuchLessIsAskedFor) {
  daemon_.offer().shared_bytes = 2 * scripted_arena::usual_bytes;
  connect();
  auto lending = std::async(std::launch::async, [this] { return client_->lend(64); });
  EXPECT_EQ(refuse_attach("no room"), 2 * scripted_arena::usual_bytes);
  const received attach = daemon_.expect(message_type::attach);
  EXPECT_EQ(wire::decode_attach(std::as_bytes(std::span{attach.parts.at(1)})).value().bytes,
            scripted_arena::usual_bytes);
  daemon_.attached(attach, arena_.where());
  arena_.hand_over();
  EXPECT_TRUE(lending.get());
}

TEST_F(SharedMemoryGrowth, WhatFindsNoRoomAsksForMoreWhichThoseAfterItUse) {
  daemon_.offer().shared_bytes = 2 * scripted_arena::usual_bytes;
  connect_shared();
  const auto all = client_->lend(scripted_arena::usual_bytes);
  ASSERT_TRUE(all);
  auto first = submit();
  scripted_arena larger{4, 2 * scripted_arena::usual_bytes};
  daemon_.share(larger);
  daemon_.result(expect_submit());
  expect_right(first.get());
  while (client_->shared_memory().bytes != 2 * scripted_arena::usual_bytes) {
    std::this_thread::yield();
  }
  auto second = submit();
  const received shared = expect_shared();
  EXPECT_EQ(place_of(shared).arena, 4U);
  daemon_.shared_result(shared, larger);
  expect_right(second.get());
}

TEST_F(SharedMemoryGrowth, WhatIsOnItsWayInASmallerOneEndsThere) {
  daemon_.offer().shared_bytes = 2 * scripted_arena::usual_bytes;
  connect_shared();
  auto first = submit();
  const received before = expect_shared();
  auto lending = std::async(std::launch::async, [this] { return client_->lend(scripted_arena::usual_bytes); });
  scripted_arena larger{4, 2 * scripted_arena::usual_bytes};
  daemon_.share(larger);
  EXPECT_TRUE(lending.get());
  daemon_.shared_result(before, arena_);
  expect_right(first.get());
}

}  // namespace
}  // namespace penstock::test

#include <gtest/gtest.h>

#include "tests/client/shared_rig.hpp"

namespace penstock::test {
namespace {

using namespace std::chrono_literals;
using wire::message_type;

class SharedMemoryReply : public shared_rig {};

TEST_F(SharedMemoryReply, AnErrorGivesTheRoomBack) {
  connect_shared();
  auto future = submit();
  daemon_.error(expect_shared(), wire::status::expired);
  EXPECT_EQ(error_of(future).kind(), error_kind::expired);
  EXPECT_EQ(used(), 0U);
}

TEST_F(SharedMemoryReply, AnErrorThatHoldsKeepsTheRoomUntilReleased) {
  connect_shared();
  auto future = submit();
  const received shared = expect_shared();
  daemon_.error_that_holds(shared, wire::status::expired);
  EXPECT_EQ(error_of(future).kind(), error_kind::expired);
  settle();
  EXPECT_EQ(used(), 64U + 192U);
  daemon_.error_that_holds(shared, wire::status::expired);
  settle();
  EXPECT_EQ(used(), 64U + 192U) << "said twice is not released";
  daemon_.release(shared);
  settle();
  EXPECT_EQ(used(), 0U);
}

TEST_F(SharedMemoryReply, ReleasedBeforeTheReplyKeepsNothing) {
  connect_shared();
  auto future = submit();
  const received shared = expect_shared();
  daemon_.release(shared);
  daemon_.error_that_holds(shared, wire::status::expired);
  EXPECT_NE(error_of(future).status(), 0U);
  settle();
  EXPECT_EQ(used(), 0U);
}

TEST_F(SharedMemoryReply, LentMemoryThatIsHeldStaysReserved) {
  connect_shared();
  auto lent = client_->lend(64);
  auto future = submit(lent->bytes());
  const received shared = expect_shared();
  daemon_.error_that_holds(shared, wire::status::cancelled);
  EXPECT_NE(error_of(future).status(), 0U);
  lent.reset();
  settle();
  EXPECT_EQ(used(), 64U + 192U);
  daemon_.release(shared);
  settle();
  EXPECT_EQ(used(), 0U);
}

TEST_F(SharedMemoryReply, RoomOfARequestThatExpiredUnansweredStaysUntilTheDaemonsWord) {
  client_options how = options();
  how.expiry_grace = 0ns;
  connect_shared(how);
  auto future = submit(large, 1, 20ms);
  const received shared = expect_shared();
  EXPECT_EQ(error_of(future).kind(), error_kind::expired);
  settle();
  EXPECT_EQ(used(), 64U + 192U);
  daemon_.shared_result(shared, arena_);
  settle();
  EXPECT_EQ(used(), 0U);
  EXPECT_EQ(client_->counters().unmatched_replies, 1U);
}

TEST_F(SharedMemoryReply, AfterAReconnectionItAsksForPlacesThatItHasNoWordOf) {
  client_options how = options();
  how.expiry_grace = 0ns;
  connect_shared(how);
  auto future = submit(large, 1, 20ms);
  const received shared = expect_shared();
  EXPECT_NE(error_of(future).status(), 0U);
  daemon_.error(shared, wire::status::hello_required);
  daemon_.greet();
  EXPECT_EQ(daemon_.expect(message_type::cancel).header.request_id, shared.header.request_id);
  daemon_.error(shared, wire::status::rejected);
  settle();
  EXPECT_EQ(used(), 0U);
}

TEST_F(SharedMemoryReply, AfterAReconnectionItAsksForPlacesThatWereHeld) {
  connect_shared();
  auto future = submit();
  const received shared = expect_shared();
  daemon_.error_that_holds(shared, wire::status::expired);
  EXPECT_EQ(error_of(future).kind(), error_kind::expired);
  for (int reconnection = 0; reconnection < 2; ++reconnection) {
    daemon_.error(shared, wire::status::hello_required);
    daemon_.greet();
    EXPECT_EQ(daemon_.expect(message_type::cancel).header.request_id, shared.header.request_id);
    daemon_.error_that_holds(shared, wire::status::cancelled);
    settle();
    EXPECT_EQ(used(), 64U + 192U) << "still in use";
  }
  daemon_.error(shared, wire::status::hello_required);
  daemon_.greet();
  daemon_.error(daemon_.expect(message_type::cancel), wire::status::rejected);
  settle();
  EXPECT_EQ(used(), 0U);
}

TEST_F(SharedMemoryReply, ACancelledRequestThatTheDaemonDoesNotKnowEndsAsCancelled) {
  connect_shared();
  const auto bytes = counting_bytes(large);
  client::request request;
  request.bytes = bytes;
  request.frames = large;
  request.id = client_->reserve_id();
  auto future = client_->submit("double", request);
  const received shared = expect_shared();
  client_->cancel(request.id);
  const received cancel = daemon_.expect(message_type::cancel);
  daemon_.error(shared, wire::status::unknown_repeat);
  daemon_.error(cancel, wire::status::rejected);
  EXPECT_EQ(error_of(future).kind(), error_kind::cancelled);
  settle();  // it is not sent again
  EXPECT_EQ(used(), 0U);
}

TEST_F(SharedMemoryReply, ARepeatSaysThatItIsOneAndNamesTheSamePlace) {
  connect_shared(impatient());
  auto future = submit();
  const received first = expect_shared();
  const received again = next_of(message_type::submit_shared);
  EXPECT_EQ(again.header.request_id, first.header.request_id);
  wire::shared_place expected = place_of(first);
  expected.repeat = true;
  EXPECT_EQ(place_of(again), expected);
  daemon_.shared_result(first, arena_);
  expect_right(future.get());
}

TEST_F(SharedMemoryReply, ARepeatThatTheDaemonDoesNotKnowGoesOverTheSocket) {
  connect_shared(impatient());
  auto future = submit();
  const received first = expect_shared();
  daemon_.error(next_of(message_type::submit_shared), wire::status::unknown_repeat);
  const received over_socket = next_of(message_type::submit);
  EXPECT_EQ(over_socket.header.request_id, first.header.request_id);
  daemon_.error(first, wire::status::unknown_repeat);  // of an earlier repeat
  daemon_.result(over_socket);
  expect_right(future.get());
}

TEST_F(SharedMemoryReply, APlaceThatIsRefusedIsLeftForTheSocket) {
  connect_shared();
  auto future = submit();
  daemon_.error(expect_shared(), wire::status::bad_place);
  daemon_.result(expect_submit());
  expect_right(future.get());
  EXPECT_GT(client_->shared_memory().bytes, 0U);
}

TEST_F(SharedMemoryReply, APlaceThatIsRefusedIsLeftForOnePart) {
  daemon_.offer().inline_bytes = 4096;
  connect_shared();
  auto future = submit();
  daemon_.error(expect_shared(), wire::status::bad_place);
  const received again = expect_submit();
  EXPECT_EQ(again.parts.size(), 1U);
  const auto bytes = counting_bytes(large);
  EXPECT_EQ(payload_of(again), std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  daemon_.result(again);
  expect_right(future.get());
}

}  // namespace
}  // namespace penstock::test

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/client/client_fixtures.hpp"

namespace penstock::test {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using wire::message_type;

class SharedMemory : public shared_memory_fixture {};

TEST_F(SharedMemory, CarriesTheAccountToo) {
  connect_shared();
  const auto bytes = counting_bytes(large);
  client::request request;
  request.bytes = bytes;
  request.frames = large;
  request.account = sample_account::at(4096);
  auto future = client_->submit("double", request);
  daemon_.shared_result(expect_shared(), arena_);
  const result got = future.get();
  EXPECT_EQ(got.account(), request.account);
  EXPECT_EQ(got.output("sum").index, 3996);
}

TEST_F(SharedMemory, LargeFramesGoThroughItOnceTheFirstHasAskedForIt) {
  connect();
  auto first = submit();
  daemon_.share(arena_);
  const received over_socket = expect_submit();
  await_sharing(true);
  auto second = submit(large, 40);
  const received shared = expect_shared();
  daemon_.result(over_socket);
  daemon_.shared_result(shared, arena_);
  expect_right(first.get());
  expect_right(second.get(), 40);
  EXPECT_EQ(client_->counters().shared, 1U);
}

TEST_F(SharedMemory, ASubmitNamesFreePlacesOfTheArenaAtMultiplesOf64) {
  connect_shared();
  auto future = submit();
  const received shared = expect_shared();
  const wire::shared_place place = place_of(shared);
  EXPECT_EQ(place.arena, arena_.number());
  EXPECT_FALSE(place.repeat);
  EXPECT_EQ(place.input % 64, 0U);
  EXPECT_EQ(place.output % 64, 0U);
  EXPECT_GE(place.output_bytes, 192U);
  EXPECT_TRUE(place.input + 64 <= place.output || place.output + place.output_bytes <= place.input);
  EXPECT_EQ(used(), 64U + 192U);
  wire::tensor_header tensor;
  ASSERT_EQ(wire::decode_tensor(std::as_bytes(std::span{shared.parts[0]}), shared.header, 0, tensor),
            wire::decode_error::none);
  EXPECT_EQ(tensor.bytes, 64U);
  daemon_.shared_result(shared, arena_);
  expect_right(future.get());
}

TEST_F(SharedMemory, SmallFramesNeitherUseNorAskForIt) {
  connect();
  auto first = submit(small);
  daemon_.result(expect_submit());
  first.get();
  settle();
  EXPECT_EQ(client_->shared_memory().bytes, 0U);
  EXPECT_EQ(client_->shared_memory().absence, "");
}

TEST_F(SharedMemory, SmallFramesGoOverTheSocketBesideLargeOnes) {
  connect_shared();
  auto future = submit(small);
  daemon_.result(expect_submit());
  expect_right(future.get());
}

TEST_F(SharedMemory, ShortFramesAreNotLargeForWhatTheirOutputsCouldBeAtMost) {
  wire::pipeline_description& pipeline = daemon_.offer().pipelines[0];
  pipeline.input.variable = pipeline.outputs[0].variable = true;
  connect_shared();
  const auto bytes = counting_bytes(large / 2);
  client::request request;
  request.bytes = bytes;
  request.frames = large;
  request.leading = 2;
  auto future = client_->submit("double", request);
  daemon_.error(expect_submit(), wire::status::rejected);
  EXPECT_EQ(error_of(future).kind(), error_kind::rejected);
}

TEST_F(SharedMemory, ADaemonThatOffersNoneIsNotAsked) {
  daemon_.offer().shared_bytes = 0;
  connect();
  auto future = submit();
  daemon_.result(expect_submit());
  expect_right(future.get());
  settle();
  EXPECT_THAT(client_->shared_memory().absence, HasSubstr("shares no memory"));
}

TEST_F(SharedMemory, TheTransportZmqNeverAsks) {
  connect(options(transport::zmq));
  EXPECT_FALSE(client_->lend(64));
  auto future = submit();
  daemon_.result(expect_submit());
  future.get();
  EXPECT_EQ(client_->counters().unshared, 0U);
  settle();
  EXPECT_NE(client_->shared_memory().absence, "");
}

TEST_F(SharedMemory, AsksForNoMoreThanTheDaemonOffersAndTheOptionsSay) {
  for (const std::uint64_t wanted : {std::uint64_t{4096}, std::uint64_t{1} << 30U}) {
    client_options options_used = options();
    options_used.shared_bytes = wanted;
    connect(options_used);
    auto future = submit();
    const received attach = daemon_.expect(message_type::attach);
    const auto body = wire::decode_attach(std::as_bytes(std::span{attach.parts.at(1)}));
    ASSERT_TRUE(body);
    EXPECT_EQ(body->bytes, std::min<std::uint64_t>(wanted, scripted_arena::usual_bytes));
    daemon_.result(expect_submit());
    future.get();
    client_.reset();
    EXPECT_EQ(daemon_.await(message_type::goodbye).header.request_id, 0U);
  }
}

TEST_F(SharedMemory, TheTransportSharedMemoryHasItFromTheBeginning) {
  connect_shared();
  EXPECT_EQ(client_->shared_memory().bytes, scripted_arena::usual_bytes);
  EXPECT_EQ(client_->shared_memory().used_bytes, 0U);
}

TEST_F(SharedMemory, TheTransportSharedMemoryThrowsWhereThereIsNone) {
  daemon_.offer().shared_bytes = 0;
  try {
    connect(options(transport::shared_memory));
    FAIL() << "it connected";
  } catch (const connect_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("shares no memory"));
  }
}

TEST_F(SharedMemory, TheTransportSharedMemoryThrowsWhereItCanNotBeReached) {
  client_options options_used = options(transport::shared_memory);
  options_used.url = daemon_.url();
  auto connecting = std::async(std::launch::async, [options_used] { return std::make_unique<client>(options_used); });
  daemon_.greet();
  daemon_.attached(daemon_.expect(message_type::attach), {"/nowhere/at/all.sock", std::string(32, '0')});
  EXPECT_THROW(connecting.get(), connect_error);
}

TEST_F(SharedMemory, WhereItCanNotBeReachedNobodyNotices) {
  connect();
  auto first = submit();
  daemon_.attached(daemon_.expect(message_type::attach), {"/nowhere/at/all.sock", std::string(32, '0')});
  daemon_.result(expect_submit());
  expect_right(first.get());
  settle();
  EXPECT_FALSE(client_->lend(64));
  auto second = submit();
  daemon_.result(expect_submit());
  expect_right(second.get());
}

TEST_F(SharedMemory, RoomComesBackWithTheLastCopyOfAResultOnAnyThread) {
  connect_shared();
  auto future = submit();
  daemon_.shared_result(expect_shared(), arena_);
  auto got = std::make_unique<result>(future.get());
  EXPECT_EQ(used(), 192U) << "the outputs alone";
  auto copy = std::make_unique<result>(*got);
  got.reset();
  EXPECT_EQ(used(), 192U);
  std::thread{[&copy] { copy.reset(); }}.join();
  EXPECT_EQ(used(), 0U);
}

TEST_F(SharedMemory, AResultLooksStraightIntoTheArena) {
  connect_shared();
  auto future = submit();
  const received shared = expect_shared();
  daemon_.shared_result(shared, arena_);
  const result got = future.get();
  arena_.memory()[place_of(shared).output] = std::byte{99};
  EXPECT_EQ(got.output("twice").bytes.front(), std::byte{99});
}

TEST_F(SharedMemory, AResultOutlivesItsClientAndTheLease) {
  connect_shared();
  auto future = submit();
  daemon_.shared_result(expect_shared(), arena_);
  const result got = future.get();
  client_.reset();
  arena_.await_end_of_lease();
  expect_right(got);
}

TEST_F(SharedMemory, AResultIsTheNextRequestsInputWithoutACopy) {
  connect_shared();
  auto first = submit();
  const received one = expect_shared();
  daemon_.shared_result(one, arena_);
  auto second = submit(first.get().output("twice").bytes);
  const received two = expect_shared();
  EXPECT_EQ(place_of(two).input, place_of(one).output);
  EXPECT_EQ(used(), 192U + place_of(two).output_bytes)
      << "kept for the request, although nobody has the result any more";
  daemon_.shared_result(two, arena_);
  second.get();
  EXPECT_EQ(used(), 0U);
}

TEST_F(SharedMemory, EveryRequestOfManyThreadsEndsOnceWithItsOwnResult) {
  constexpr int threads = 4;
  constexpr int each = 200;
  daemon_.offer().credit_requests = 8;
  connect_shared();
  std::vector<std::thread> callers;
  for (int caller = 0; caller < threads; ++caller) {
    callers.emplace_back([this, caller] {
      for (int turn = 0; turn < each; ++turn) {
        const auto first = static_cast<std::uint8_t>(caller * 60 + turn % 50);
        expect_right(submit(large, first).get(), first);
      }
    });
  }
  for (int reply = 0; reply < threads * each; ++reply) {
    daemon_.shared_result(expect_shared(), arena_);
  }
  for (std::thread& caller : callers) {
    caller.join();
  }
  EXPECT_EQ(client_->counters().shared, static_cast<std::uint64_t>(threads * each));
  EXPECT_EQ(used(), 0U);
}

TEST_F(SharedMemory, ReleaseIsCalledOnceForBytesThatWereCopied) {
  connect_shared();
  const auto bytes = counting_bytes(large);
  std::promise<void> released;
  client::request request;
  request.bytes = bytes;
  request.frames = large;
  request.release = [&released] { released.set_value(); };  // throws the second time
  auto future = client_->submit("double", request);
  request.release = nullptr;
  daemon_.shared_result(expect_shared(), arena_);
  future.get();
  EXPECT_EQ(released.get_future().wait_for(20s), std::future_status::ready);
}

TEST_F(SharedMemory, AResultThatMakesNoSenseIsIgnoredAndCounted) {
  connect_shared();
  auto future = submit();
  const received shared = expect_shared();
  const auto spoilt = [&](const std::function<void(std::vector<std::string>&)>& spoil) {
    std::vector<std::string> parts = daemon_.shared_result_parts(shared, arena_);
    spoil(parts);
    daemon_.send(shared.peer, parts);
  };
  spoilt([](auto& parts) { parts.emplace_back("more"); });
  spoilt([](auto& parts) { parts[0].resize(parts[0].size() - 1); });
  spoilt([](auto& parts) { parts[0][40] = 1; });   // tensors
  spoilt([](auto& parts) { parts[0][44] = 17; });  // frames
  spoilt([](auto& parts) { parts[0][64] = 9; });   // a dtype
  settle();
  EXPECT_EQ(client_->counters().malformed_replies, 5U);
  daemon_.shared_result(shared, arena_);
  expect_right(future.get());
}

TEST_F(SharedMemory, AResultInTheArenaForARequestOverTheSocketIsIgnored) {
  connect_shared();
  auto future = submit(small);
  const received over_socket = expect_submit();
  auto parts = result_parts(over_socket);
  parts.resize(1);
  parts[0][5] = static_cast<char>(message_type::result_shared);
  daemon_.send(over_socket.peer, parts);
  daemon_.result(over_socket);
  expect_right(future.get());
  EXPECT_EQ(client_->counters().malformed_replies, 1U);
}

TEST_F(SharedMemory, CancelIsAskedForAsEver) {
  connect_shared();
  const auto bytes = counting_bytes(large);
  client::request request;
  request.bytes = bytes;
  request.frames = large;
  request.id = client_->reserve_id();
  auto future = client_->submit("double", request);
  const received shared = expect_shared();
  client_->cancel(request.id);
  EXPECT_EQ(daemon_.expect(message_type::cancel).header.request_id, request.id);
  daemon_.error(shared, wire::status::cancelled);
  EXPECT_EQ(error_of(future).kind(), error_kind::cancelled);
  EXPECT_EQ(used(), 0U);
}

TEST_F(SharedMemory, ADestroyedClientEndsItsRequestsAndItsLease) {
  connect_shared();
  auto future = submit();
  const received shared = expect_shared();
  client_.reset();
  EXPECT_EQ(error_of(future).kind(), error_kind::shutdown);
  arena_.await_end_of_lease();
}

}  // namespace

namespace {

using namespace std::chrono_literals;
using wire::message_type;

class SharedMemoryReply : public shared_memory_fixture {};

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
  client_options options_used = options();
  options_used.expiry_grace = 0ns;
  connect_shared(options_used);
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
  client_options options_used = options();
  options_used.expiry_grace = 0ns;
  connect_shared(options_used);
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

namespace {

using namespace std::chrono_literals;
using wire::message_type;

class LentMemory : public shared_memory_fixture {
 protected:
  /// Lent memory that holds frames which count up from `first`.
  [[nodiscard]] lent_memory lend(std::uint32_t frames = large, std::uint8_t first = 1) {
    std::optional<lent_memory> lent = client_->lend(4U * frames);
    const auto bytes = counting_bytes(frames, first);
    std::copy(bytes.begin(), bytes.end(), lent.value().bytes().begin());
    return std::move(*lent);
  }
  /// Where in the arena it lies, found by what is written there.
  [[nodiscard]] std::uint64_t offset_of(const lent_memory& lent) const {
    const std::byte before = lent.bytes().front();
    lent.bytes().front() = std::byte{0xA5};
    const auto found = std::find(arena_.memory().begin(), arena_.memory().end(), std::byte{0xA5});
    lent.bytes().front() = before;
    return static_cast<std::uint64_t>(found - arena_.memory().begin());
  }
};

TEST_F(LentMemory, IsAlignedAndOfTheSizeThatWasAskedFor) {
  connect_shared();
  const auto lent = client_->lend(100);
  ASSERT_TRUE(lent);
  EXPECT_EQ(lent->bytes().size(), 100U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(lent->bytes().data()) % 64, 0U);
}

TEST_F(LentMemory, TheFirstCallAsksForTheArenaAndWaitsForIt) {
  connect();
  auto lending = std::async(std::launch::async, [this] { return client_->lend(64); });
  daemon_.share(arena_);
  EXPECT_TRUE(lending.get());
}

TEST_F(LentMemory, ACallThatWaitsWhileTheDaemonRestartsHasMemoryOfTheNewOne) {
  connect();
  auto lending = std::async(std::launch::async, [this] { return client_->lend(64); });
  (void)daemon_.expect(message_type::attach);
  daemon_.restart();
  daemon_.greet();
  daemon_.share(arena_);
  EXPECT_TRUE(lending.get());
}

TEST_F(LentMemory, ACallThatWaitsWhileTheDaemonRestartsFailsWhereTheNewOneSharesNone) {
  connect();
  auto lending = std::async(std::launch::async, [this] { return client_->lend(64); });
  (void)daemon_.expect(message_type::attach);
  daemon_.offer().shared_bytes = 0;
  daemon_.restart();
  daemon_.greet();
  EXPECT_FALSE(lending.get());
  EXPECT_THAT(client_->shared_memory().absence, ::testing::HasSubstr("shares no memory"));
}

TEST_F(LentMemory, IsSentFromWhereItLies) {
  connect_shared();
  const lent_memory lent = lend();
  auto future = submit(lent.bytes());
  const received shared = expect_shared();
  EXPECT_EQ(place_of(shared).input, offset_of(lent));
  EXPECT_EQ(used(), 64U + 192U);
  daemon_.shared_result(shared, arena_);
  expect_right(future.get());
}

TEST_F(LentMemory, FramesInTheMiddleOfItAreSentFromThere) {
  connect_shared();
  const lent_memory lent = lend(4 * large);
  auto future = submit(lent.bytes().subspan(64, 64));
  const received shared = expect_shared();
  EXPECT_EQ(place_of(shared).input, offset_of(lent) + 64);
  daemon_.shared_result(shared, arena_);
  expect_right(future.get(), 65);
}

TEST_F(LentMemory, BytesOutOfLineAreCopied) {
  connect_shared();
  const lent_memory lent = lend(4 * large);
  auto future = submit(lent.bytes().subspan(4, 64));
  const received shared = expect_shared();
  EXPECT_NE(place_of(shared).input, offset_of(lent) + 4);
  EXPECT_EQ(place_of(shared).input % 64, 0U);
  daemon_.shared_result(shared, arena_);
  expect_right(future.get(), 5);
}

TEST_F(LentMemory, SmallFramesInItAreNotCopiedEither) {
  connect_shared();
  const lent_memory lent = lend(small);
  auto future = submit(lent.bytes());
  const received shared = expect_shared();
  EXPECT_EQ(place_of(shared).input, offset_of(lent));
  daemon_.shared_result(shared, arena_);
  expect_right(future.get());
}

TEST_F(LentMemory, StaysReservedUntilTheReplyWhenItIsLetGoBefore) {
  connect_shared();
  std::optional<lent_memory> lent = lend();
  auto future = submit(lent->bytes());
  const received shared = expect_shared();
  lent.reset();
  EXPECT_EQ(used(), 64U + 192U);
  daemon_.shared_result(shared, arena_);
  {
    const result got = future.get();
    EXPECT_EQ(used(), 192U);
  }
  EXPECT_EQ(used(), 0U);
}

TEST_F(LentMemory, GoesIntoManyRequestsAtOnce) {
  connect_shared();
  const lent_memory lent = lend();
  auto first = submit(lent.bytes());
  auto second = submit(lent.bytes());
  const received one = expect_shared();
  const received two = expect_shared();
  EXPECT_EQ(place_of(one).input, place_of(two).input);
  EXPECT_NE(place_of(one).output, place_of(two).output);
  daemon_.shared_result(two, arena_);
  daemon_.shared_result(one, arena_);
  expect_right(first.get());
  expect_right(second.get());
  EXPECT_EQ(used(), 64U);
}

TEST_F(LentMemory, IsSentFromWhereItLiesOverTheSocketToo) {
  connect_shared();
  const lent_memory lent = lend();
  const auto rest = client_->lend(scripted_arena::usual_bytes - 64);
  ASSERT_TRUE(rest);
  auto future = submit(lent.bytes());
  daemon_.result(expect_submit());
  expect_right(future.get());
}

TEST_F(LentMemory, MayBeMovedAndOutliveItsClient) {
  connect_shared();
  lent_memory lent = lend();
  lent_memory moved = std::move(lent);
  lent = lend();
  lent = std::move(moved);
  EXPECT_EQ(moved.bytes().size(), 0U);
  EXPECT_EQ(used(), 64U);
  client_.reset();
  std::fill(lent.bytes().begin(), lent.bytes().end(), std::byte{1});
}

TEST_F(LentMemory, ReleaseIsCalledWhenTheRequestHasEnded) {
  connect_shared();
  const lent_memory lent = lend();
  std::atomic<int> released{0};
  client::request request;
  request.bytes = lent.bytes();
  request.frames = large;
  request.release = [&released] { ++released; };
  auto future = client_->submit("double", request);
  const received shared = expect_shared();
  settle();
  EXPECT_EQ(released, 0);
  daemon_.shared_result(shared, arena_);
  future.get();
  EXPECT_EQ(released, 1);
}

TEST_F(LentMemory, OfAnEarlierDaemonIsCopiedLikeAnyOther) {
  connect_shared();
  const lent_memory lent = lend();
  arena_.end_lease();
  await_sharing(false);
  auto future = submit(lent.bytes());
  daemon_.result(expect_submit());
  expect_right(future.get());
}

}  // namespace

}  // namespace penstock::test

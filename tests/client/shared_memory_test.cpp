#include <algorithm>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "tests/client/shared_rig.hpp"

namespace penstock::test {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using wire::message_type;

class SharedMemory : public shared_rig {};

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
    client_options how = options();
    how.shared_bytes = wanted;
    connect(how);
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
  client_options how = options(transport::shared_memory);
  how.url = daemon_.url();
  auto connecting = std::async(std::launch::async, [how] { return std::make_unique<client>(how); });
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
    daemon_.send(shared.from, parts);
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
  daemon_.send(over_socket.from, parts);
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
}  // namespace penstock::test

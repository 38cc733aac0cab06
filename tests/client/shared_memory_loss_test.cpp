#include <atomic>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <penstock/session.hpp>

#include "tests/client/client_fixtures.hpp"

namespace penstock::test {
namespace {

using namespace std::chrono_literals;
using wire::message_type;

class SharedMemoryLoss : public shared_memory_fixture {};

TEST_F(SharedMemoryLoss, AnUnknownArenaIsLeftByAllThatIsInFlight) {
  connect_shared();
  auto first = submit(large, 10);
  auto second = submit(large, 20);
  const received one = expect_shared();
  const received two = expect_shared();
  daemon_.error(one, wire::status::unknown_arena);
  daemon_.result(expect_submit());
  daemon_.error(two, wire::status::unknown_arena);
  daemon_.result(expect_submit());
  expect_right(first.get(), 10);
  expect_right(second.get(), 20);
  EXPECT_EQ(client_->shared_memory().bytes, 0U);
  arena_.await_end_of_lease();
  settle();
}

TEST_F(SharedMemoryLoss, TheEndOfTheLeaseSendsItAgainOverTheSocket) {
  connect_shared();
  auto future = submit();
  const received shared = expect_shared();
  arena_.end_lease();
  const received again = expect_submit();
  EXPECT_EQ(again.header.request_id, shared.header.request_id);
  daemon_.result(again);
  expect_right(future.get());
}

TEST_F(SharedMemoryLoss, WhatWasAcceptedBeforeTheEndOfTheLeaseHasItsResultInTheOldArena) {
  connect_shared();
  auto future = submit();
  const received shared = expect_shared();
  arena_.end_lease();
  (void)expect_submit();  // a repeat of what is in flight: ignored
  daemon_.shared_result(shared, arena_);
  expect_right(future.get());
}

TEST_F(SharedMemoryLoss, WhatTheDaemonStillHoldsIsGivenToNobodyWhenTheLeaseEnds) {
  connect_shared();
  const auto bytes = counting_bytes(large);
  std::promise<bool> taken;
  client::request request;
  request.bytes = bytes;
  request.frames = large;
  // Called when its place has gone back.
  request.release = [this, &taken] { taken.set_value(client_->lend(64).has_value()); };
  auto future = client_->submit("double", request);
  daemon_.error_that_holds(expect_shared(), wire::status::expired);
  EXPECT_EQ(error_of(future).kind(), error_kind::expired);
  arena_.end_lease();
  EXPECT_FALSE(taken.get_future().get());
}

TEST_F(SharedMemoryLoss, AFreshArenaIsFetchedLater) {
  connect_shared(impatient());
  auto first = submit();
  const received earlier = next_of(message_type::submit_shared);
  daemon_.shared_result(earlier, arena_);
  const result kept = first.get();
  arena_.end_lease();
  await_sharing(false);
  scripted_arena fresh{4};
  std::set<std::uint64_t> served{earlier.header.request_id};
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  while (client_->shared_memory().bytes == 0) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    auto future = submit();
    for (bool done = false; !done;) {
      const received message = daemon_.next();
      if (message.header.type == message_type::attach) {
        daemon_.attached(message, fresh.attached());
        fresh.hand_over();
      } else if (message.header.type == message_type::submit) {
        daemon_.result(message);
        done = served.insert(message.header.request_id).second;  // else it repeats an earlier one
      } else if (message.header.type == message_type::submit_shared) {
        daemon_.shared_result(message, fresh);
        done = served.insert(message.header.request_id).second;
      } else if (message.header.type == message_type::hello) {
        daemon_.welcome(message);
      }
    }
    expect_right(future.get());
  }
  auto second = submit(large, 30);
  const received shared = next_of(message_type::submit_shared);
  EXPECT_EQ(place_of(shared).arena, 4U);
  daemon_.shared_result(shared, fresh);
  expect_right(second.get(), 30);
  expect_right(kept);
}

TEST_F(SharedMemoryLoss, ARestartSendsItAgainOverTheSocketAndOldResultsStay) {
  connect_shared();
  auto first = submit(large, 10);
  daemon_.shared_result(expect_shared(), arena_);
  const result kept = first.get();
  auto second = submit(large, 20);
  const received lost = expect_shared();
  arena_.end_lease();
  daemon_.restart();
  daemon_.greet();
  const received again = daemon_.await(message_type::submit);
  EXPECT_EQ(again.header.request_id, lost.header.request_id);
  daemon_.result(again);
  expect_right(second.get(), 20);
  expect_right(kept, 10);
}

TEST_F(SharedMemoryLoss, ANewInstanceIsAskedForAFreshArenaAtOnce) {
  connect_shared();
  daemon_.restart();  // the end of its lease has not been seen when its welcome comes
  daemon_.greet();
  settle();
  auto first = submit();
  scripted_arena fresh{4};
  const received message = daemon_.next();
  ASSERT_EQ(message.header.type, message_type::attach);
  daemon_.attached(message, fresh.attached());
  fresh.hand_over();
  daemon_.result(expect_submit());
  expect_right(first.get());
  await_sharing(true);
}

TEST_F(SharedMemoryLoss, AQuestionThatALostConnectionTookIsAskedAgain) {
  connect();
  auto future = submit();
  const received attach = daemon_.expect(message_type::attach);
  const received over_socket = expect_submit();
  daemon_.error(attach, wire::status::hello_required);
  daemon_.greet();
  daemon_.result(over_socket);
  expect_right(future.get());
  const received again = daemon_.await(message_type::attach);
  daemon_.attached(again, arena_.attached());
  arena_.hand_over();
  await_sharing(true);
}

TEST_F(SharedMemoryLoss, EveryRequestHasItsOwnResultWhileArenasComeAndGo) {
  constexpr int threads = 3;
  constexpr int each = 300;
  client_options options_used = impatient();
  options_used.retry_after = 1ms;  // until the next arena
  connect_shared(options_used);
  std::atomic<int> left{threads};
  std::vector<std::jthread> callers;
  for (int caller = 0; caller < threads; ++caller) {
    callers.emplace_back([this, &left, caller] {
      for (int turn = 0; turn < each; ++turn) {
        const auto first = static_cast<std::uint8_t>(caller * 60 + turn % 50);
        expect_right(submit(large, first).get(), first);
      }
      if (--left == 0) {
        (void)client_->ping(20s);  // the end
      }
    });
  }
  std::vector<std::unique_ptr<scripted_arena>> arenas;
  const scripted_arena* now = &arena_;
  int shared = 0;
  for (bool done = false; !done;) {
    const received message = daemon_.next();
    switch (message.header.type) {
      case message_type::submit:
        daemon_.result(message);
        break;
      case message_type::attach:
        arenas.push_back(std::make_unique<scripted_arena>(static_cast<std::uint32_t>(arenas.size()) + 10));
        daemon_.attached(message, arenas.back()->attached());
        arenas.back()->hand_over();
        now = arenas.back().get();
        break;
      case message_type::submit_shared:
        if (place_of(message).arena != now->number()) {
          daemon_.error(message, wire::status::unknown_arena);
        } else if (place_of(message).repeat) {  // it was answered at once
          daemon_.error(message, wire::status::unknown_repeat);
        } else {
          daemon_.shared_result(message, *now);
        }
        if (++shared % 10 == 0 && !arenas.empty()) {
          arenas.back()->end_lease();
        } else if (shared % 10 == 0) {
          arena_.end_lease();
        }
        break;
      case message_type::ping:
        daemon_.answer(message, message_type::pong);
        done = true;
        break;
      case message_type::hello:
        daemon_.welcome(message);
        break;
      default:
        FAIL() << "a message of type " << static_cast<int>(message.header.type);
    }
  }
  callers.clear();
  EXPECT_GT(arenas.size(), 1U);
  EXPECT_EQ(client_->counters().results, static_cast<std::uint64_t>(threads * each));
  EXPECT_EQ(client_->counters().malformed_replies, 0U);
}

TEST_F(SharedMemoryLoss, ASessionGoesOnInItsOrderWhenTheLeaseEnds) {
  daemon_.offer().pipelines[0].keeps_state = true;
  connect_shared();
  auto opening = std::async(std::launch::async, [this] { return client_->open_session("double", "antenna"); });
  daemon_.opened(daemon_.expect(message_type::open_session), 5);
  session line = opening.get();
  std::vector<std::future<result>> futures;
  for (const std::uint32_t frames : {large, small, large}) {
    const auto bytes = counting_bytes(frames);
    client::request request;
    request.bytes = bytes;
    request.frames = frames;
    futures.push_back(line.submit(request));
  }
  EXPECT_EQ(expect_shared().header.sequence, 0U);
  EXPECT_EQ(expect_submit().header.sequence, large);
  EXPECT_EQ(expect_shared().header.sequence, large + small);
  arena_.end_lease();
  for (const std::uint64_t sequence : {0U, large, large + small}) {
    const received again = expect_submit();
    EXPECT_EQ(again.header.session, 5U);
    EXPECT_EQ(again.header.sequence, sequence);
    daemon_.result(again);
  }
  for (std::future<result>& each : futures) {
    expect_right(each.get());
  }
}

TEST_F(SharedMemoryLoss, ASessionsResultsComeThroughTheArena) {
  daemon_.offer().pipelines[0].keeps_state = true;
  connect_shared();
  auto opening = std::async(std::launch::async, [this] { return client_->open_session("double", "antenna"); });
  daemon_.opened(daemon_.expect(message_type::open_session), 5);
  session line = opening.get();
  for (std::uint64_t turn = 0; turn < 3; ++turn) {
    const auto bytes = counting_bytes(large);
    client::request request;
    request.bytes = bytes;
    request.frames = large;
    auto future = line.submit(request);
    const received shared = expect_shared();
    EXPECT_EQ(shared.header.session, 5U);
    EXPECT_EQ(shared.header.sequence, turn * large);
    daemon_.shared_result(shared, arena_);
    expect_right(future.get());
  }
  EXPECT_EQ(used(), 0U);
}

}  // namespace

namespace {

using ::testing::HasSubstr;
using wire::message_type;

class SharedMemoryGrowth : public shared_memory_fixture {};

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
  daemon_.attached(attach, arena_.attached());
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

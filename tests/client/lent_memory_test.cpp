#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include <gmock/gmock.h>

#include "tests/client/shared_rig.hpp"

namespace penstock::test {
namespace {

using namespace std::chrono_literals;
using wire::message_type;

class LentMemory : public shared_rig {
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

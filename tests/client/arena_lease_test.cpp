#include "client/cpp/arena_lease.hpp"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>

#include "tests/client/scripted_daemon.hpp"

namespace penstock::test {
namespace {

using link::arena_size;
constexpr std::uint64_t mebibyte = std::uint64_t{1} << 20U;
constexpr std::uint64_t first = 4 * mebibyte;

TEST(ArenaSize, IsLittleAtFirstAndTwiceWhatOneRequestNeeds) {
  arena_size size{first};
  size.want(32'768, 0);
  EXPECT_EQ(size.next(64 * mebibyte), first);
  size.want(6 * mebibyte, 0);
  EXPECT_EQ(size.next(64 * mebibyte), 12 * mebibyte);
  size.want(0, 0);
  EXPECT_EQ(size.next(64 * mebibyte), first);
}

TEST(ArenaSize, BeginsWithWhatTheProgramSays) {
  arena_size size{20 * mebibyte};
  size.want(mebibyte, 0);
  EXPECT_EQ(size.next(64 * mebibyte), 20 * mebibyte);
  EXPECT_EQ(size.next(16 * mebibyte), 16 * mebibyte);
  size.want(12 * mebibyte, 0);
  EXPECT_EQ(size.next(64 * mebibyte), 24 * mebibyte);
}

TEST(ArenaSize, DoublesUpToTheMost) {
  arena_size size{first};
  size.want(mebibyte, 4 * mebibyte);
  EXPECT_EQ(size.next(64 * mebibyte), 8 * mebibyte);
  size.want(mebibyte, 40 * mebibyte);
  EXPECT_EQ(size.next(64 * mebibyte), 64 * mebibyte);
  size.want(mebibyte, 64 * mebibyte);
  EXPECT_EQ(size.next(64 * mebibyte), 0U);
}

TEST(ArenaSize, HalvesDownToWhatOneRequestNeeds) {
  arena_size size{first};
  size.want(3 * mebibyte, 0);
  EXPECT_EQ(size.next(64 * mebibyte), 6 * mebibyte);
  EXPECT_TRUE(size.halve());
  EXPECT_EQ(size.next(64 * mebibyte), 3 * mebibyte);
  EXPECT_FALSE(size.halve());
}

TEST(ArenaSize, IsAlwaysMoreThanThereIs) {
  arena_size size{first};
  size.want(1, 4 * mebibyte);
  EXPECT_EQ(size.next(64 * mebibyte), 8 * mebibyte);
  EXPECT_TRUE(size.halve());
  EXPECT_EQ(size.next(64 * mebibyte), 4 * mebibyte + 1);
  EXPECT_FALSE(size.halve());
}

TEST(ArenaSize, IsNoneWhereARequestWouldFindNoRoomInTheMostEither) {
  arena_size size{first};
  size.want(65 * mebibyte, 4 * mebibyte);
  EXPECT_EQ(size.next(64 * mebibyte), 0U);
  size.want(65 * mebibyte, 0);
  EXPECT_EQ(size.next(64 * mebibyte), 64 * mebibyte) << "others will find room";
}

}  // namespace

namespace {

using namespace std::chrono_literals;
using link::arena_lease;
using link::time_point;

/// A lease whose time the test sets.
class ArenaLease : public ::testing::Test {
 protected:
  void ask() {
    lease_.want(need, now_);
    ASSERT_TRUE(lease_.wanted());
    lease_.asked(now_);
  }
  /// Fetches what the daemon hands over.
  void fetch(scripted_arena& arena) {
    ask();
    ASSERT_TRUE(lease_.answered(arena.attached(), now_));
    arena.hand_over();
    settle();
  }
  /// Goes on once the descriptor is readable.
  void settle() {
    pollfd item{lease_.descriptor(), POLLIN, 0};
    ASSERT_EQ(::poll(&item, 1, 20'000), 1);
    lease_.tend(now_);
  }

  static constexpr std::uint64_t need = 1000;
  time_point now_ = time_point{} + 1h;
  link::published_arena slot_;
  arena_lease lease_{slot_, std::uint64_t{4} << 20U, 2s, 5s};
};

TEST_F(ArenaLease, AsksForNothingUnlessItIsWanted) {
  lease_.tend(now_);
  EXPECT_FALSE(lease_.wanted());
  EXPECT_EQ(lease_.next_due(), link::never);
  EXPECT_EQ(lease_.descriptor(), -1);
}

TEST_F(ArenaLease, HoldsWhatItHasFetched) {
  scripted_arena arena{9};
  fetch(arena);
  ASSERT_NE(slot_.current(), nullptr);
  EXPECT_EQ(slot_.current()->number(), 9U);
  EXPECT_EQ(slot_.current()->bytes(), scripted_arena::usual_bytes);
  EXPECT_EQ(lease_.held(), slot_.current().get());
  EXPECT_FALSE(lease_.ended());
}

TEST_F(ArenaLease, KeepsWhatItHasOutgrownAsLongAsAnythingLiesInIt) {
  scripted_arena small{9};
  fetch(small);
  const auto outgrown = slot_.current();
  link::arena_block lying = outgrown->take(64);
  scripted_arena large{10, 2 * scripted_arena::usual_bytes};
  fetch(large);
  EXPECT_EQ(slot_.current()->number(), 10U);
  EXPECT_FALSE(outgrown->take(64)) << "what comes now has room in the larger one";
  now_ = lease_.next_due();
  lease_.tend(now_);
  EXPECT_NE(lease_.next_due(), link::never) << "it looks again";
  lying = {};
  lease_.tend(now_);
  EXPECT_EQ(lease_.next_due(), link::never);
  small.await_end_of_lease();
}

TEST_F(ArenaLease, KeepsWhatItHasWhereALargerOneCanNotBeHad) {
  scripted_arena arena{9};
  fetch(arena);
  ask();
  lease_.refused("because", /*for_want_of_room=*/false, now_);
  ASSERT_NE(slot_.current(), nullptr);
  EXPECT_TRUE(slot_.current()->take(64));
  lease_.want(need, now_);
  EXPECT_FALSE(lease_.wanted()) << "soon after a failure";
  EXPECT_GE(lease_.descriptor(), 0) << "its end would still be seen";
}

TEST_F(ArenaLease, AsksForLessWhereTheDaemonHasNoRoom) {
  ask();
  std::vector<std::uint64_t> sizes{lease_.size(262'144)};
  while (slot_.absence().empty()) {
    lease_.refused("no room", /*for_want_of_room=*/true, now_);
    if (lease_.wanted()) {
      sizes.push_back(lease_.size(262'144));
      lease_.asked(now_);
    }
  }
  EXPECT_EQ(sizes, (std::vector<std::uint64_t>{262'144, 131'072, 65'536}));
}

TEST_F(ArenaLease, NoticesItsEnd) {
  scripted_arena arena;
  fetch(arena);
  arena.end_lease();
  pollfd item{lease_.descriptor(), POLLIN, 0};
  ASSERT_EQ(::poll(&item, 1, 20'000), 1);
  EXPECT_TRUE(lease_.ended());
}

TEST_F(ArenaLease, AFailureSettlesTheSlotWithItsReason) {
  ask();
  lease_.failed("because", now_);
  EXPECT_EQ(slot_.wait(link::never), nullptr);
  EXPECT_EQ(slot_.absence(), "because");
}

TEST_F(ArenaLease, PausesDoubleAfterEachFailureUpToTheLimit) {
  for (const auto pause : {2s, 4s, 5s, 5s}) {
    ask();
    lease_.failed("because", now_);
    lease_.want(need, now_ + pause - 1ns);
    EXPECT_FALSE(lease_.wanted());
    now_ += pause;
  }
}

TEST_F(ArenaLease, SuccessEndsTheDoubling) {
  ask();
  lease_.failed("because", now_);
  now_ += 2s;
  scripted_arena arena;
  fetch(arena);
  lease_.failed("it ended", now_);
  EXPECT_EQ(slot_.current(), nullptr);
  now_ += 2s;
  lease_.want(need, now_);
  EXPECT_TRUE(lease_.wanted());
}

TEST_F(ArenaLease, AnotherDaemonIsAskedAtOnce) {
  ask();
  lease_.failed("because", now_);
  lease_.forget();
  EXPECT_EQ(slot_.absence(), "");
  lease_.want(need, now_);
  EXPECT_TRUE(lease_.wanted());
}

TEST_F(ArenaLease, WhatWasOnItsWayIsWantedOfAnotherDaemon) {
  const scripted_arena arena;
  lease_.want(need, now_);
  lease_.forget();
  EXPECT_TRUE(lease_.wanted()) << "not asked for yet";
  lease_.asked(now_);
  lease_.forget();
  EXPECT_TRUE(lease_.wanted()) << "not answered yet";
  lease_.asked(now_);
  ASSERT_TRUE(lease_.answered(arena.attached(), now_));
  lease_.forget();
  EXPECT_TRUE(lease_.wanted()) << "not handed over yet";
}

TEST_F(ArenaLease, WhatItHeldIsNotWantedOfAnotherDaemon) {
  scripted_arena arena;
  fetch(arena);
  lease_.forget();
  EXPECT_FALSE(lease_.wanted());
}

TEST_F(ArenaLease, WhatItLosesGivesNoMoreRoom) {
  const std::vector<void (*)(arena_lease&, time_point)> ends{
      [](arena_lease& lease, time_point now) { lease.failed("it ended", now); },
      [](arena_lease& lease, time_point) { lease.forget(); }};
  for (const auto& end : ends) {
    scripted_arena arena;
    fetch(arena);
    const auto seen = slot_.current();  // by a caller, before the end
    ASSERT_NE(seen, nullptr);
    end(lease_, now_);
    EXPECT_FALSE(seen->take(64));
    now_ += 2s;
  }
}

TEST_F(ArenaLease, GivesUpWhenNoAnswerComes) {
  ask();
  EXPECT_EQ(lease_.next_due(), now_ + link::longest_attachment);
  lease_.tend(now_ + link::longest_attachment - 1ns);
  EXPECT_EQ(slot_.absence(), "");
  lease_.tend(now_ + link::longest_attachment);
  EXPECT_NE(slot_.absence(), "");
  EXPECT_EQ(lease_.next_due(), link::never);
}

TEST_F(ArenaLease, GivesUpWhenTheSocketStaysSilent) {
  const scripted_arena arena;
  ask();
  ASSERT_TRUE(lease_.answered(arena.attached(), now_));
  lease_.tend(now_ + link::longest_attachment);
  EXPECT_NE(slot_.absence(), "");
  EXPECT_EQ(lease_.descriptor(), -1);
}

TEST_F(ArenaLease, TriesAgainWhereTooManyWait) {
  scripted_arena arena;
  // The daemon lets nobody in: connections queue up until there is no more room.
  std::vector<std::unique_ptr<link::arena_socket>> others;
  for (bool full = false; !full; full = others.back()->descriptor() < 0) {
    others.push_back(std::make_unique<link::arena_socket>(arena.attached()));
    EXPECT_EQ(others.back()->fetch(), nullptr);
    ASSERT_LT(others.size(), 10'000U);
  }
  ask();
  ASSERT_TRUE(lease_.answered(arena.attached(), now_));
  EXPECT_EQ(lease_.descriptor(), -1);
  EXPECT_LT(lease_.next_due(), now_ + 1s);
  EXPECT_EQ(slot_.absence(), "") << "not given up";
  for (std::size_t waiting = 0; waiting + 1 < others.size(); ++waiting) {
    arena.turn_away();
  }
  others.clear();
  now_ = lease_.next_due();
  lease_.tend(now_);
  arena.hand_over();
  settle();
  EXPECT_NE(slot_.current(), nullptr);
}

TEST_F(ArenaLease, TakesNoAnswerThatItDidNotAskFor) {
  EXPECT_FALSE(lease_.answered({"@nowhere", std::string(32, '0')}, now_));
  EXPECT_EQ(slot_.absence(), "");
}

TEST_F(ArenaLease, ARefusalOfAnEarlierQuestionTakesNothingAway) {
  scripted_arena arena;
  fetch(arena);
  lease_.refused("because", /*for_want_of_room=*/false, now_);
  EXPECT_NE(slot_.current(), nullptr);
  EXPECT_GE(lease_.descriptor(), 0);
}

TEST_F(ArenaLease, AsksAgainOverANewConnection) {
  ask();
  lease_.ask_again();
  EXPECT_TRUE(lease_.wanted());
}

TEST_F(ArenaLease, FailsWhereTheAddressOrTheTicketIsNone) {
  const std::string ticket(32, 'a');
  for (const wire::attached& attached : {wire::attached{"", ticket},
                                         {"@", ticket},
                                         {"@" + std::string(200, 'x'), ticket},
                                         {std::string("@a\0b", 4), ticket},
                                         {"/nowhere/at/all.sock", ticket},
                                         {"@penstock-test-nobody", ticket},
                                         {"@penstock-test-nobody", "short"},
                                         {"@penstock-test-nobody", std::string(32, 'g')}}) {
    ask();
    EXPECT_TRUE(lease_.answered(attached, now_));
    EXPECT_NE(slot_.absence(), "") << attached.socket;
    lease_.forget();
  }
}

TEST_F(ArenaLease, FailsWhereTheAnswerMakesNoSense) {
  const auto unsealed = make_memory(scripted_arena::usual_bytes, /*sealed=*/false);
  const auto sealed = make_memory(scripted_arena::usual_bytes);
  scripted_arena arena;
  std::string other_magic = arena.right_answer();
  other_magic[0] = 'X';
  std::string too_large = arena.right_answer();
  too_large[15] = 1;
  const std::vector<std::pair<std::string, int>> answers{{other_magic, sealed.number()},
                                                         {too_large, sealed.number()},
                                                         {arena.right_answer(), -1},
                                                         {arena.right_answer(), unsealed.number()}};
  for (const auto& [bytes, descriptor] : answers) {
    ask();
    ASSERT_TRUE(lease_.answered(arena.attached(), now_));
    arena.answer(bytes, descriptor);
    settle();
    EXPECT_NE(slot_.absence(), "");
    lease_.forget();
  }
}

TEST_F(ArenaLease, FailsWhereTheDaemonClosesWithoutAnAnswer) {
  scripted_arena arena;
  ask();
  ASSERT_TRUE(lease_.answered(arena.attached(), now_));
  arena.turn_away();
  settle();
  EXPECT_NE(slot_.absence(), "");
}

TEST_F(ArenaLease, AnAnswerInPiecesIsPutTogether) {
  scripted_arena arena{9};
  const auto memory = make_memory(scripted_arena::usual_bytes);
  ask();
  ASSERT_TRUE(lease_.answered(arena.attached(), now_));
  const std::string whole = arena.right_answer();
  arena.answer(whole.substr(0, 5), memory.number());
  settle();
  EXPECT_EQ(slot_.current(), nullptr);
  EXPECT_EQ(slot_.absence(), "");
  arena.add(whole.substr(5));
  settle();
  ASSERT_NE(slot_.current(), nullptr);
  EXPECT_EQ(slot_.current()->number(), 9U);
}

}  // namespace

}  // namespace penstock::test

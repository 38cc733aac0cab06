#include "client/cpp/session_book.hpp"

#include <gmock/gmock.h>

namespace penstock::test {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::shared_ptr<link::session_record> record(const std::string& name) {
  auto pipeline = std::make_shared<pipeline_info>();
  pipeline->name = "p";
  return std::make_shared<link::session_record>(pipeline, name);
}

/// A session with requests 100, 101 and 102 of two frames each.
class SessionBook : public ::testing::Test {
 protected:
  SessionBook() {
    book_.add(one_);
    for (std::uint64_t each = 0; each < 3; ++each) {
      book_.joined(*one_, 2 * each, 100 + each);
    }
  }

  std::shared_ptr<link::session_record> one_ = record("one");
  link::session_book book_;
};

TEST_F(SessionBook, FindsSessionsByName) {
  EXPECT_EQ(book_.find("p", "one"), one_);
  EXPECT_EQ(book_.find("p", "two"), nullptr);
  EXPECT_EQ(book_.find("q", "one"), nullptr);
  book_.remove(*one_);
  EXPECT_EQ(book_.find("p", "one"), nullptr);
}

TEST_F(SessionBook, GapAsksForTheRestOfTheLine) {
  EXPECT_THAT(book_.missing(*one_, 2).ids, ElementsAre(101, 102));
}

TEST_F(SessionBook, SameGapAsksAgainOnlyAfterARepeat) {
  EXPECT_THAT(book_.missing(*one_, 2).ids, ElementsAre(101, 102));
  EXPECT_THAT(book_.missing(*one_, 2).ids, IsEmpty());
  book_.repeated(*one_);
  EXPECT_THAT(book_.missing(*one_, 2).ids, ElementsAre(101, 102));
}

TEST_F(SessionBook, GapBelowWhatWasTakenIsOld) {
  EXPECT_FALSE(book_.left(*one_, 0));
  book_.confirmed(*one_, 2);
  const auto gap = book_.missing(*one_, 0);
  EXPECT_FALSE(gap.lost);
  EXPECT_THAT(gap.ids, IsEmpty());
}

TEST_F(SessionBook, GapOfFramesThatNobodyHasIsALoss) {
  EXPECT_FALSE(book_.left(*one_, 0));
  EXPECT_TRUE(book_.missing(*one_, 0).lost);
}

TEST_F(SessionBook, PausesOfOneRequestGrowToTheLimit) {
  link::time_point now{1h};
  EXPECT_EQ(book_.next_resumption(), link::never);
  for (const auto pause : {40ms, 80ms, 90ms, 90ms}) {
    book_.refused(*one_, 2, now, 40ms, 90ms);
    EXPECT_EQ(book_.next_resumption(), now + pause);
    EXPECT_THAT(book_.resume(now + pause - 1ns), IsEmpty());
    now += pause;
    EXPECT_THAT(book_.resume(now), ElementsAre(101, 102));
  }
  book_.refused(*one_, 4, now, 40ms, 90ms);
  EXPECT_EQ(book_.next_resumption(), now + 40ms);
}

TEST_F(SessionBook, FirstPauseIsShortHoweverPatientTheClientIs) {
  book_.refused(*one_, 2, link::time_point{1h}, 2s, 16s);
  EXPECT_EQ(book_.next_resumption(), link::time_point{1h} + 100ms);
}

TEST_F(SessionBook, PauseHoldsBackTheRequestAndWhatFollows) {
  const link::time_point now{1h};
  book_.refused(*one_, 2, now, 40ms, 90ms);
  EXPECT_FALSE(book_.pauses(*one_, 0));
  EXPECT_TRUE(book_.pauses(*one_, 2));
  EXPECT_TRUE(book_.pauses(*one_, 6));
  book_.refused(*one_, 2, now + 30ms, 40ms, 90ms);  // told twice: the pause is no longer for it
  EXPECT_EQ(book_.next_resumption(), now + 40ms);
  book_.remove(*one_);
  EXPECT_EQ(book_.next_resumption(), link::never);
}

TEST_F(SessionBook, GapDuringOrBehindAPauseAsksForNothing) {
  const link::time_point now{1h};
  book_.refused(*one_, 2, now, 40ms, 90ms);
  EXPECT_THAT(book_.missing(*one_, 2).ids, IsEmpty());
  EXPECT_THAT(book_.resume(now + 40ms), ElementsAre(101, 102));
  EXPECT_THAT(book_.missing(*one_, 2).ids, IsEmpty());
  book_.repeated(*one_);
  EXPECT_THAT(book_.missing(*one_, 2).ids, ElementsAre(101, 102));
}

TEST_F(SessionBook, RefusalOfWhatWasTakenIsOld) {
  book_.confirmed(*one_, 4);
  book_.refused(*one_, 2, link::time_point{1h}, 40ms, 90ms);
  EXPECT_EQ(book_.next_resumption(), link::never);
}

TEST_F(SessionBook, ClosingSessionIsDoneWithItsLastRequest) {
  EXPECT_FALSE(book_.close(*one_));
  EXPECT_TRUE(book_.is_closing(*one_));
  EXPECT_FALSE(book_.left(*one_, 2));
  EXPECT_FALSE(book_.left(*one_, 0));
  EXPECT_TRUE(book_.left(*one_, 4));
}

TEST_F(SessionBook, KnowsNothingOfOthers) {
  const auto other = record("other");
  EXPECT_FALSE(book_.holds(*other));
  EXPECT_FALSE(book_.close(*other));
  EXPECT_FALSE(book_.left(*other, 0));
  EXPECT_FALSE(book_.missing(*other, 0).lost);
  EXPECT_THAT(book_.line(*other), IsEmpty());
}

TEST(SessionRecord, NumbersWhatWasHandedOnOnly) {
  const auto one = record("one");
  const auto take = [](std::uint64_t) { return true; };
  EXPECT_TRUE(one->number_next(3, take));
  EXPECT_FALSE(one->number_next(2, [](std::uint64_t sequence) {
    EXPECT_EQ(sequence, 3U);
    return false;
  }));
  EXPECT_EQ(one->frames(), 3U);
  EXPECT_TRUE(one->end(request_error{0x0600, {"first", {}, {}, {}}}));
  EXPECT_FALSE(one->end(request_error{0x0600, {"second", {}, {}, {}}}));
  EXPECT_EQ(one->ended()->details().reason, "first");
  EXPECT_THROW(one->number_next(1, take), request_error);
}

}  // namespace
}  // namespace penstock::test

#include "client/cpp/session_table.hpp"

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
class SessionTable : public ::testing::Test {
 protected:
  SessionTable() {
    book_.add(one_);
    for (std::uint64_t each = 0; each < 3; ++each) {
      book_.add_request(*one_, 2 * each, 100 + each);
    }
  }

  std::shared_ptr<link::session_record> one_ = record("one");
  link::session_table book_;
};

TEST_F(SessionTable, FindsSessionsByName) {
  EXPECT_EQ(book_.find("p", "one"), one_);
  EXPECT_EQ(book_.find("p", "two"), nullptr);
  EXPECT_EQ(book_.find("q", "one"), nullptr);
  book_.remove(*one_);
  EXPECT_EQ(book_.find("p", "one"), nullptr);
}

TEST_F(SessionTable, GapAsksForTheRestOfTheLine) {
  EXPECT_THAT(book_.missing(*one_, 2).ids, ElementsAre(101, 102));
}

TEST_F(SessionTable, SameGapAsksAgainOnlyAfterARepeat) {
  EXPECT_THAT(book_.missing(*one_, 2).ids, ElementsAre(101, 102));
  EXPECT_THAT(book_.missing(*one_, 2).ids, IsEmpty());
  book_.repeated(*one_);
  EXPECT_THAT(book_.missing(*one_, 2).ids, ElementsAre(101, 102));
}

TEST_F(SessionTable, GapBelowWhatWasTakenIsOld) {
  EXPECT_FALSE(book_.remove_request(*one_, 0));
  book_.confirmed(*one_, 2);
  const auto gap = book_.missing(*one_, 0);
  EXPECT_FALSE(gap.lost);
  EXPECT_THAT(gap.ids, IsEmpty());
}

TEST_F(SessionTable, GapOfFramesThatNobodyHasIsALoss) {
  EXPECT_FALSE(book_.remove_request(*one_, 0));
  EXPECT_TRUE(book_.missing(*one_, 0).lost);
}

TEST_F(SessionTable, PausesOfOneRequestGrowToTheLimit) {
  link::time_point now{1h};
  EXPECT_EQ(book_.next_resume(), link::never);
  for (const auto pause : {40ms, 80ms, 90ms, 90ms}) {
    book_.refused(*one_, 2, now, 40ms, 90ms);
    EXPECT_EQ(book_.next_resume(), now + pause);
    EXPECT_THAT(book_.resume(now + pause - 1ns), IsEmpty());
    now += pause;
    EXPECT_THAT(book_.resume(now), ElementsAre(101, 102));
  }
  book_.refused(*one_, 4, now, 40ms, 90ms);
  EXPECT_EQ(book_.next_resume(), now + 40ms);
}

TEST_F(SessionTable, FirstPauseIsShortHoweverPatientTheClientIs) {
  book_.refused(*one_, 2, link::time_point{1h}, 2s, 16s);
  EXPECT_EQ(book_.next_resume(), link::time_point{1h} + 100ms);
}

TEST_F(SessionTable, PauseHoldsBackTheRequestAndWhatFollows) {
  const link::time_point now{1h};
  book_.refused(*one_, 2, now, 40ms, 90ms);
  EXPECT_FALSE(book_.pauses(*one_, 0));
  EXPECT_TRUE(book_.pauses(*one_, 2));
  EXPECT_TRUE(book_.pauses(*one_, 6));
  book_.refused(*one_, 2, now + 30ms, 40ms, 90ms);  // told twice: the pause is no longer for it
  EXPECT_EQ(book_.next_resume(), now + 40ms);
  book_.remove(*one_);
  EXPECT_EQ(book_.next_resume(), link::never);
}

TEST_F(SessionTable, GapDuringOrBehindAPauseAsksForNothing) {
  const link::time_point now{1h};
  book_.refused(*one_, 2, now, 40ms, 90ms);
  EXPECT_THAT(book_.missing(*one_, 2).ids, IsEmpty());
  EXPECT_THAT(book_.resume(now + 40ms), ElementsAre(101, 102));
  EXPECT_THAT(book_.missing(*one_, 2).ids, IsEmpty());
  book_.repeated(*one_);
  EXPECT_THAT(book_.missing(*one_, 2).ids, ElementsAre(101, 102));
}

TEST_F(SessionTable, RefusalOfWhatWasTakenIsOld) {
  book_.confirmed(*one_, 4);
  book_.refused(*one_, 2, link::time_point{1h}, 40ms, 90ms);
  EXPECT_EQ(book_.next_resume(), link::never);
}

TEST_F(SessionTable, ClosingSessionIsDoneWithItsLastRequest) {
  EXPECT_FALSE(book_.close(*one_));
  EXPECT_TRUE(book_.is_closing(*one_));
  EXPECT_FALSE(book_.remove_request(*one_, 2));
  EXPECT_FALSE(book_.remove_request(*one_, 0));
  EXPECT_TRUE(book_.remove_request(*one_, 4));
}

TEST_F(SessionTable, KnowsNothingOfOthers) {
  const auto other = record("other");
  EXPECT_FALSE(book_.holds(*other));
  EXPECT_FALSE(book_.close(*other));
  EXPECT_FALSE(book_.remove_request(*other, 0));
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

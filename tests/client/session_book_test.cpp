#include "client/cpp/session_book.hpp"

#include <gmock/gmock.h>

namespace penstock::test {
namespace {

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

#include "daemon/request/sessions.hpp"

#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "daemon/request/clients.hpp"
#include "tests/support/hand_made_plan.hpp"
#include "tests/support/start.hpp"

namespace penstock {
namespace {

using std::chrono::seconds;
using testing::start;
constexpr std::chrono::nanoseconds idle_timeout = seconds{60};

class SessionTable : public ::testing::Test {
 protected:
  session_record* open(const std::string& name, time_point now = start) { return table_.open(ann_, plan_, name, now); }

  const plan plan_ = testing::hand_made_plan(0);
  const plan other_plan_ = testing::hand_made_plan(1);
  client_record ann_{0, "ann", 8};
  client_record ben_{1, "ben", 8};
  session_table table_{4, idle_timeout, 1};
};

TEST_F(SessionTable, GivesAClientNoMoreThanItsShare) {
  session_table shared{4, idle_timeout, 1, 2};
  session_record* const first = shared.open(ann_, plan_, "a", start);
  ASSERT_NE(first, nullptr);
  ASSERT_NE(shared.open(ann_, plan_, "b", start), nullptr);
  EXPECT_TRUE(shared.full(ann_));
  EXPECT_EQ(shared.open(ann_, plan_, "c", start), nullptr);
  EXPECT_EQ(shared.open(ann_, plan_, "a", start), first) << "one that is open is found again";
  EXPECT_NE(shared.open(ben_, plan_, "c", start), nullptr);
  session_table::close(*first);
  EXPECT_FALSE(shared.full(ann_));
  EXPECT_NE(shared.open(ann_, plan_, "c", start), nullptr);
}

TEST_F(SessionTable, OpensASessionFromItsBeginning) {
  const session_record* const made = open("a");
  ASSERT_NE(made, nullptr);
  EXPECT_NE(made->number, 0U);
  EXPECT_EQ(made->client, &ann_);
  EXPECT_EQ(made->pipeline, &plan_);
  EXPECT_EQ(made->frames, 0U);
  EXPECT_EQ(made->steps, 0);
  EXPECT_EQ(made->first, nullptr);
  EXPECT_EQ(made->carrier, nullptr);
  EXPECT_EQ(table_.size(), 1U);
}

TEST_F(SessionTable, FindsItByItsNumberForItsClientAlone) {
  session_record* const made = open("a");
  EXPECT_EQ(table_.find(made->number, ann_), made);
  EXPECT_EQ(table_.find(made->number, ben_), nullptr);
  EXPECT_EQ(table_.find(made->number + 4, ann_), nullptr) << "the place's next number";
  EXPECT_EQ(table_.find(made->number + 1, ann_), nullptr);
  EXPECT_EQ(table_.find(0, ann_), nullptr);
  EXPECT_EQ(table_.find(std::numeric_limits<std::uint32_t>::max(), ann_), nullptr);
}

TEST_F(SessionTable, FindsNothingWhereNobodyEverWas) {
  for (std::uint32_t number = 0; number < 100; ++number) {
    EXPECT_EQ(table_.find(number, ann_), nullptr) << number;
  }
}

TEST_F(SessionTable, FindsANameAgainWithWhatItHas) {
  session_record* const made = open("a");
  made->frames = 17;
  EXPECT_EQ(open("a", start + seconds{5}), made);
  EXPECT_EQ(made->frames, 17U);
  EXPECT_EQ(made->last_used, start + seconds{5}) << "who asks for it uses it";
  EXPECT_EQ(table_.size(), 1U);
}

TEST_F(SessionTable, MakesANewOneForEachUnnamed) {
  EXPECT_NE(open(""), open(""));
  EXPECT_EQ(table_.size(), 2U);
}

TEST_F(SessionTable, TellsNamesOfClientsAndOfPipelinesApart) {
  const std::set<const session_record*> all{open("a"), open("b"), table_.open(ben_, plan_, "a", start),
                                            table_.open(ann_, other_plan_, "a", start)};
  EXPECT_EQ(all.size(), 4U);
}

TEST_F(SessionTable, DoesNotFindAClosedOneByItsNameNorByItsNumber) {
  session_record* const made = open("a");
  const std::uint32_t number = made->number;
  session_table::close(*made);
  EXPECT_EQ(table_.find(number, ann_), nullptr);
  EXPECT_EQ(table_.size(), 0U);
  EXPECT_NE(open("a")->number, number);
}

TEST_F(SessionTable, GivesEverySessionANumberThatNoneEverHad) {
  std::set<std::uint32_t> numbers;
  std::mt19937 random(1);
  std::vector<session_record*> alive;
  for (int count = 0; count < 10000; ++count) {
    if (alive.size() == table_.places()) {
      std::swap(alive[random() % alive.size()], alive.back());
      session_table::close(*alive.back());
      alive.pop_back();
    }
    alive.push_back(open(""));
    ASSERT_NE(alive.back(), nullptr);
    ASSERT_TRUE(numbers.insert(alive.back()->number).second) << "session " << count;
    for (const session_record* const each : alive) {
      ASSERT_EQ(table_.find(each->number, ann_), each);
    }
  }
  std::set<std::uint32_t> found;
  for (const std::uint32_t number : numbers) {
    if (table_.find(number, ann_) != nullptr) {
      found.insert(number);
    }
  }
  EXPECT_EQ(found.size(), alive.size()) << "only those that are open";
}

TEST_F(SessionTable, KeepsAClosedOnesPlaceWhileARequestRefersToIt) {
  session_record* const busy = open("busy");
  busy->references = 1;
  for (const char* name : {"b", "c", "d"}) {
    ASSERT_NE(open(name), nullptr);
  }
  session_table::close(*busy);
  EXPECT_EQ(open("e"), nullptr) << "no place is free";
  EXPECT_EQ(busy->client, &ann_);
  busy->references = 0;
  const session_record* const next = open("e");
  ASSERT_NE(next, nullptr);
  EXPECT_EQ(next, busy);
}

TEST_F(SessionTable, RefusesWhenEveryPlaceIsTakenAndNoneIdle) {
  for (const char* name : {"a", "b", "c", "d"}) {
    ASSERT_NE(open(name), nullptr);
  }
  EXPECT_EQ(open("e", start + idle_timeout - seconds{1}), nullptr);
  EXPECT_NE(open("a", start + seconds{1}), nullptr) << "but finds those that it has";
}

TEST_F(SessionTable, EvictsTheOneThatHasBeenIdleLongestWhenAPlaceIsWanted) {
  const std::uint32_t a = open("a", start + seconds{3})->number;
  const std::uint32_t b = open("b", start + seconds{1})->number;
  const std::uint32_t c = open("c", start + seconds{2})->number;
  const std::uint32_t d = open("d", start + seconds{4})->number;
  const time_point later = start + idle_timeout + seconds{3};
  ASSERT_NE(open("e", later), nullptr);
  EXPECT_EQ(table_.find(b, ann_), nullptr);
  ASSERT_NE(open("f", later), nullptr);
  EXPECT_EQ(table_.find(c, ann_), nullptr);
  ASSERT_NE(open("g", later), nullptr);
  EXPECT_EQ(table_.find(a, ann_), nullptr);
  EXPECT_NE(table_.find(d, ann_), nullptr);
  EXPECT_EQ(open("h", later), nullptr) << "the last is not idle for long enough";
}

TEST_F(SessionTable, NeverEvictsOneThatARequestRefersTo) {
  session_record* const oldest = open("a", start);
  oldest->references = 1;
  const std::uint32_t number = oldest->number;
  for (const char* name : {"b", "c", "d"}) {
    open(name, start + seconds{1});
  }
  const time_point later = start + seconds{1000};
  for (const char* name : {"e", "f", "g"}) {
    ASSERT_NE(open(name, later), nullptr);
  }
  EXPECT_EQ(open("h", later), nullptr);
  EXPECT_EQ(table_.find(number, ann_), oldest);
  table_.sweep(later);
  EXPECT_EQ(table_.find(number, ann_), oldest);
}

TEST_F(SessionTable, TakesAFreePlaceBeforeItEvicts) {
  const std::uint32_t number = open("a", start)->number;
  ASSERT_NE(open("b", start + seconds{1000}), nullptr);
  EXPECT_NE(table_.find(number, ann_), nullptr);
}

TEST_F(SessionTable, SweepsWhatHasBeenIdleForTheTimeoutAndNothingElse) {
  const std::uint32_t a = open("a", start)->number;
  const std::uint32_t b = open("b", start + seconds{1})->number;
  table_.sweep(start + idle_timeout - std::chrono::nanoseconds{1});
  EXPECT_EQ(table_.size(), 2U);
  table_.sweep(start + idle_timeout);
  EXPECT_EQ(table_.find(a, ann_), nullptr);
  EXPECT_NE(table_.find(b, ann_), nullptr);
}

TEST_F(SessionTable, ClosesAllOfAClientAndNobodyElses) {
  const std::uint32_t a = open("a")->number;
  const std::uint32_t b = open("b")->number;
  session_record* const bens = table_.open(ben_, plan_, "a", start);
  table_.close_all(ann_);
  EXPECT_EQ(table_.find(a, ann_), nullptr);
  EXPECT_EQ(table_.find(b, ann_), nullptr);
  EXPECT_EQ(table_.find(bens->number, ben_), bens);
  EXPECT_EQ(table_.size(), 1U);
}

TEST_F(SessionTable, NumbersOfAnotherStartAreNotFound) {
  std::set<std::uint32_t> firsts;
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    session_table another(4, idle_timeout, seed);
    const std::uint32_t number = another.open(ann_, plan_, "a", start)->number;
    EXPECT_NE(number, 0U);
    EXPECT_TRUE(firsts.insert(number).second) << "seed " << seed;
  }
}

// Near the end of the numbers: they begin again, and are never 0.
TEST_F(SessionTable, CountsOnPastTheLargestNumber) {
  constexpr std::uint32_t most = std::numeric_limits<std::uint32_t>::max();
  for (const std::uint32_t places : {1U, 3U, 4U, 64U, 65536U}) {
    session_table at_the_end(places, idle_timeout, most / places - 2);
    std::set<std::uint32_t> numbers;
    for (int count = 0; count < 8; ++count) {
      session_record* const made = at_the_end.open(ann_, plan_, "a", start);
      EXPECT_NE(made->number, 0U);
      EXPECT_TRUE(numbers.insert(made->number).second) << places << " places";
      EXPECT_EQ(at_the_end.find(made->number, ann_), made);
      session_table::close(*made);
    }
    EXPECT_LT(*numbers.begin(), 100 * places) << "the test did not come to the end";
  }
}

TEST(SessionRecord, KeepsItsRequestsInOrderWhateverIsUnlinked) {
  for (const std::uint32_t seed : {1U, 2U, 3U}) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    session_record session;
    std::vector<request> pool(32);
    std::vector<request*> outside;
    std::vector<request*> model;
    for (request& each : pool) {
      outside.push_back(&each);
    }
    for (int step = 0; step < 3000; ++step) {
      if (!outside.empty() && (model.empty() || random() % 2 == 0)) {
        session.append(*outside.back());
        model.push_back(outside.back());
        outside.pop_back();
      } else {
        const auto victim = model.begin() + static_cast<std::ptrdiff_t>(random() % model.size());
        session.unlink(**victim);
        outside.push_back(*victim);
        model.erase(victim);
      }
      std::vector<request*> forward;
      for (request* each = session.first; each != nullptr; each = each->session_next) {
        forward.push_back(each);
      }
      ASSERT_EQ(forward, model);
      ASSERT_EQ(session.last, model.empty() ? nullptr : model.back());
    }
  }
}

}  // namespace
}  // namespace penstock

#include "daemon/request/request_tracker.hpp"

#include <gtest/gtest.h>

#include "tests/support/hand_made_plan.hpp"
#include "tests/support/scheduler_rig.hpp"
#include "tests/support/start.hpp"

namespace penstock {
namespace {

using std::chrono::nanoseconds;
using testing::hand_made_plan;
using testing::recorded_replies;
using testing::start;

class RequestTracker : public ::testing::Test {
 protected:
  request& open(std::uint64_t id, std::uint64_t timeout_ns = 0, std::size_t bytes = 16) {
    wire::message_header header;
    header.request_id = id;
    header.timeout_ns = timeout_ns;
    header.frames = 1;
    return book_.open(*client_, header,
                      {.pipeline = &plan_, .session = nullptr, .leading = 16, .bytes = bytes, .shared = {}}, start);
  }
  void end(request& request, wire::status code) {
    book_.settle_error(request, code, {"why", "queued", "", ""});
    book_.release(request);
  }

  const plan plan_ = hand_made_plan(0);
  recorded_replies replies_;
  account counters_;
  client_table clients_{4, 8};
  client_record* client_ = clients_.admit("client", start);
  request_tracker book_{1, replies_, counters_};
};

TEST_F(RequestTracker, TakesCreditsAndGivesThemBackWithTheReply) {
  request& one = open(1, 0, 100);
  request& two = open(2, 0, 50);
  EXPECT_EQ(client_->requests, 2U);
  EXPECT_EQ(client_->bytes, 150U);
  end(one, wire::status::cancelled);
  EXPECT_EQ(client_->requests, 1U);
  EXPECT_EQ(client_->bytes, 50U);
  end(two, wire::status::cancelled);
  EXPECT_EQ(client_->requests, 0U);
  EXPECT_EQ(client_->bytes, 0U);
}

TEST_F(RequestTracker, FindsARequestUntilItsReply) {
  request& one = open(42);
  EXPECT_EQ(client_->in_flight.find(42), &one);
  book_.settle_error(one, wire::status::expired, {});
  EXPECT_EQ(client_->in_flight.find(42), nullptr);
  EXPECT_EQ(client_->references, 1U) << "the device may still work on it";
  book_.release(one);
  EXPECT_EQ(client_->references, 0U);
}

TEST_F(RequestTracker, CountsEachEndUnderItsKind) {
  end(open(1), wire::status::overflow);
  end(open(2), wire::status::expired);
  end(open(3), wire::status::cancelled);
  end(open(4), wire::status::device_failed);
  end(open(5), wire::status::shutdown);
  (void)open(6);
  const std::array<std::uint64_t, wire::status_kinds> each_once{0, 1, 1, 1, 1, 1, 0};
  EXPECT_EQ(counters_.requests.errors, each_once);
  EXPECT_EQ(counters_.requests.in_flight, 1U);
  EXPECT_TRUE(counters_.requests.balanced());
  EXPECT_EQ(book_.of_pipeline(0).requests.errors, each_once);
  EXPECT_EQ(replies_.count, 5U);
}

TEST_F(RequestTracker, AnUnbalancedAccountSaysSo) {
  (void)open(1);
  ++counters_.requests.results;
  EXPECT_FALSE(counters_.requests.balanced());
}

TEST_F(RequestTracker, IsDueAtTheDeadlineAndNotBefore) {
  request& one = open(1, 1000);
  (void)open(2);
  EXPECT_EQ(book_.next_deadline(), start + nanoseconds{1000});
  EXPECT_EQ(book_.due(start + nanoseconds{999}), nullptr);
  EXPECT_EQ(book_.due(start + nanoseconds{1000}), &one);
}

TEST_F(RequestTracker, AnEndedRequestIsNeverDue) {
  end(open(1, 1000), wire::status::cancelled);
  EXPECT_EQ(book_.next_deadline(), never);
}

TEST_F(RequestTracker, TheLongestTimeoutsAreNone) {
  for (const std::uint64_t timeout : {~std::uint64_t{0}, std::uint64_t{1} << 63U, (std::uint64_t{1} << 61U) + 1}) {
    EXPECT_EQ(open(timeout, timeout).deadline, never);
  }
  EXPECT_LT(open(1, std::uint64_t{1} << 61U).deadline, never);
}

TEST_F(RequestTracker, NamesEveryStep) {
  EXPECT_EQ(name_of(request_step::queued), "queued");
  EXPECT_EQ(name_of(request_step::batched), "batched");
  EXPECT_EQ(name_of(request_step::executing), "executing");
}

}  // namespace
}  // namespace penstock

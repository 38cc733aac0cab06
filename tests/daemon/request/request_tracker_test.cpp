#include "daemon/request/request_tracker.hpp"

#include <utility>

#include <gtest/gtest.h>

#include "daemon/request/wire_tensor.hpp"
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

TEST_F(RequestTracker, CountsFilledSamplesOfEarlierRequestsThatAResultReachesBackTo) {
  plan rows = hand_made_plan(0);
  rows.outputs.resize(1);
  rows.outputs[0].timing = step_timing{}.then({.rate = {.divisor = 100}, .delay = 99});  // rows of 100
  session_record session;
  session.pipeline = &rows;
  std::uint64_t id = 0;
  const auto told = [&](std::int64_t steps, std::uint32_t filled, bool withheld = false) {
    wire::message_header header;
    header.request_id = ++id;
    header.frames = 1;
    request_tracker::submission admitted{
        .pipeline = &rows, .session = &session, .leading = steps, .bytes = 16, .shared = {}};
    admitted.account =
        wire::sample_account{.filled = filled, .flags = withheld ? wire::sample_flag::withheld : std::uint8_t{0}};
    request& made = book_.open(*client_, header, admitted, start);
    const wire::sample_account account = account_of_result(made);
    end(made, wire::status::cancelled);
    return std::pair{account.filled, static_cast<int>(account.flags)};
  };
  using counted = std::pair<std::uint32_t, int>;
  EXPECT_EQ(told(60, 7), (counted{7, 0}));  // steps 0 … 59; its own flags are the sender's
  EXPECT_EQ(told(30, 0), (counted{7, 2}));  // … 89, of the first row still
  EXPECT_EQ(told(40, 25, true), (counted{32, 34})) << "its own are withheld";  // … 129
  EXPECT_EQ(told(10, 0), (counted{25, 34})) << "the row begins within the one before: 30 of its 40 samples";
  EXPECT_EQ(told(60, 0), (counted{25, 34}));  // … 199
  EXPECT_EQ(told(100, 0), (counted{0, 0}));
  EXPECT_TRUE(session.filled.empty());
  for (int each = 0; each < 300; ++each) {
    EXPECT_LE(told(1, 1).first, 101U);
  }
  EXPECT_LE(session.filled.size(), 64U);
}

TEST_F(RequestTracker, CountsTheSamplesOfASessionAlongTheAxisOfTime) {
  plan planar = hand_made_plan(0);
  planar.declaration.input = {element_type::f32, {8, 1024}, false};
  planar.declaration.time_axis = 1;
  session_record session;
  session.pipeline = &planar;
  wire::message_header header;
  for (const std::uint32_t frames : {1U, 3U}) {
    ++header.request_id;
    header.frames = frames;
    end(book_.open(*client_, header,
                   {.pipeline = &planar, .session = &session, .leading = 8, .bytes = 16, .shared = {}}, start),
        wire::status::cancelled);
  }
  EXPECT_EQ(session.steps, 4 * 1024);
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

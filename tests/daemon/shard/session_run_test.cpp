#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/daemon/shard/session_run_rig.hpp"

namespace penstock {
namespace {

using std::chrono::microseconds;
using testing::session_run_rig;

// Sessions of several clients, cut at random, over 100,000 frames. Some of them are closed on the way, so that others
// get their places, and the memory of their states as it is.
class SessionRun : public ::testing::TestWithParam<completion_mode> {
 protected:
  static constexpr std::uint64_t frames_in_all = 100000;
  static constexpr std::uint64_t in_flight = 300;
  static constexpr std::uint64_t seed = 31;

  void send_one(bool with_timeouts) {
    const std::string& from = names_[random_() % names_.size()];
    const auto pipeline = static_cast<std::uint32_t>(random_() % 2);
    // New names come with time: there are not places enough for them and those before.
    const std::string name = std::to_string(random_() % 6) + "/" + std::to_string(frames_ / 20000);
    session_record* const session = rig_.open(from, pipeline, name);
    if (session == nullptr) {  // every place is taken
      session_table::close(*opened_[random_() % opened_.size()]);
      return;
    }
    if (std::find(opened_.begin(), opened_.end(), session) == opened_.end()) {
      opened_.push_back(session);
    }
    const bool several = random_() % 2 == 0;
    const auto frames = static_cast<std::uint32_t>(several ? 2 + random_() % 20 : 1);
    const auto timeout = microseconds{with_timeouts && random_() % 8 == 0 ? 1 + random_() % 2000 : 0};
    rig_.submit(*session, frames, 1 + static_cast<std::int64_t>(random_() % session_run_rig::longest), timeout);
    sent_by_[rig_.last_id()] = from;
    frames_ += frames;
  }
  void cancel_one() {
    const std::uint64_t id = rig_.last_id() - random_() % std::min<std::uint64_t>(rig_.last_id(), in_flight);
    rig_.cancel(sent_by_.at(id), id);
  }
  void run(bool with_ends) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    while (frames_ < frames_in_all && !HasFailure()) {
      for (std::uint64_t some = random_() % 40; some > 0 && rig_.counters.requests.in_flight < in_flight; --some) {
        send_one(with_ends);
      }
      for (std::uint64_t some = with_ends && rig_.last_id() > 0 ? random_() % 6 : 0; some > 0; --some) {
        cancel_one();
      }
      ASSERT_TRUE(rig_.turn(microseconds{20})) << "the device does nothing any more";
    }
    while (!rig_.at_rest()) {
      ASSERT_TRUE(rig_.turn(microseconds{20})) << "the device does nothing any more";
    }
    rig_.expect_rest();
    EXPECT_GT(rig_.batches(), 500U) << "too few to overtake each other";
  }

  std::mt19937_64 random_{seed};
  session_run_rig rig_{GetParam()};
  const std::vector<std::string> names_{"ann", "ben", "cy"};
  std::vector<session_record*> opened_;
  std::map<std::uint64_t, std::string> sent_by_;
  std::uint64_t frames_ = 0;
};

TEST_P(SessionRun, EverySessionsTotalsAreThoseOfItsFramesInTheirOrder) {
  run(false);
  EXPECT_EQ(rig_.replies.errors, 0U);
  EXPECT_EQ(rig_.replies.results, rig_.last_id());
}

TEST_P(SessionRun, WhatIsAnsweredIsRightWhateverElseIsCancelledOrExpires) {
  run(true);
  EXPECT_GT(rig_.replies.errors, rig_.last_id() / 20);
  EXPECT_GT(rig_.replies.results, rig_.last_id() / 4);
}

INSTANTIATE_TEST_SUITE_P(Modes, SessionRun, ::testing::Values(completion_mode::callback, completion_mode::poll),
                         [](const ::testing::TestParamInfo<completion_mode>& mode) {
                           return mode.param == completion_mode::poll ? "Poll" : "Callback";
                         });

}  // namespace
}  // namespace penstock

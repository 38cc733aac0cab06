#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/scheduler_rig.hpp"

namespace penstock {
namespace {

using testing::plan_wish;
using testing::rig_request;
using testing::rig_shape;
using testing::scheduler_rig;

/// Anything that can happen to the scheduler, in random order: requests of all kinds of pipelines, in and out of
/// sessions, completions in any order, cancels and timeouts at any step, replies that keep their slots.
class random_walk {
 public:
  static constexpr std::uint32_t credits = 64;

  /// `slots`: few let requests wait in the queue, many let batches overtake each other. With every other seed the
  /// device reads payloads of 40 bytes and more where they came in, and writes over those of the last pipeline, with
  /// the seeds 5 and 7 small batches are done within their launch, and with the seed 6 both.
  random_walk(std::uint64_t seed, completion_mode mode, std::size_t slots, int streams)
      : random_(seed),
        in_place_(seed % 2 == 0),
        rig_(rig_shape{.slots = slots,
                       .streams = streams,
                       .mode = mode,
                       .credits = credits,
                       .max_sessions = max_sessions,
                       .in_place_bytes = in_place_ ? 40U : SIZE_MAX,
                       .inline_steps = seed >= 5 && seed <= 7 ? 32 : 0},
             wishes()) {}

  /// One thing happens. Every so often the rig is asked whether everything adds up.
  void step(std::uint64_t check_every = 1) {
    act(random_() % 16);
    if (++steps_ % check_every == 0) {
      rig_.check();
    }
  }
  /// Ends a request that is in flight: at one of the steps that there are any at, each as likely. False without any.
  bool cancel_one() {
    std::array<request*, 5> found{};
    for (std::size_t back = 0; back < std::min<std::size_t>(recent_.size(), 100); ++back) {
      const auto& [from, id] = recent_[recent_.size() - 1 - back];
      request* const each = rig_.client(from).in_flight.find(id);
      if (each != nullptr && random_() % 4 == 0) {
        found[static_cast<std::size_t>(each->step)] = each;
      }
    }
    const std::size_t from = random_() % found.size();
    for (std::size_t step = 0; step < found.size(); ++step) {
      if (request* const chosen = found[(from + step) % found.size()]) {
        ++ended_at_[static_cast<std::size_t>(chosen->step)];
        rig_.scheduling.end(*chosen, wire::status::cancelled, "cancelled");
        return true;
      }
    }
    return false;
  }
  /// Requests that were cancelled while they stood there.
  [[nodiscard]] std::uint64_t cancelled_at(request_step step) const {
    return ended_at_[static_cast<std::size_t>(step)];
  }

  void end_in_peace() {
    rig_.end_in_peace();
    EXPECT_EQ(rig_.counters.requests.accepted, ids_);
    EXPECT_EQ(rig_.replied.count, ids_);
    EXPECT_GT(rig_.counters.requests.results, 0U);
    for (const session_record* const each : sessions_) {
      EXPECT_EQ(each->references, 0U);
      EXPECT_EQ(each->first, nullptr);
    }
  }
  void end_with_a_fault() {
    rig_.device.lose("cudaErrorIllegalAddress");
    rig_.settle();
    rig_.scheduling.end_all(wire::status::device_failed, {"lost", "executing", "", "cudaErrorIllegalAddress"});
    rig_.replied.lend = false;
    rig_.drop_lent();
    rig_.settle();
    rig_.check();
    // Of slots nothing is said: one whose launch the device refused stays in its hands.
    EXPECT_EQ(rig_.counters.requests.in_flight, 0U);
    EXPECT_EQ(rig_.replied.count, ids_);
    EXPECT_LE(rig_.payloads.size(), in_place_ ? rig_.slots.size() : 0U) << "only what the device may use stays";
    for (const std::string& each : names_) {
      EXPECT_EQ(rig_.client(each).references, 0U);
    }
  }

 private:
  static constexpr std::uint32_t max_sessions = 12;
  static constexpr std::uint32_t stateful = 4;

  static std::vector<plan_wish> wishes() {
    return {plan_wish{.shape = {16}, .max_frames = 8},
            plan_wish{.shape = {8, 3}, .variable = true, .max_frames = 5, .priority = stream_priority::high},
            plan_wish{.shape = {100}, .max_frames = 2, .max_delay = std::chrono::nanoseconds{0}, .ordered = false},
            plan_wish{.shape = {1}, .max_frames = 64, .priority = stream_priority::low},
            plan_wish{.shape = {6, 2}, .variable = true, .max_frames = 6, .keeps_state = true},
            plan_wish{.shape = {20}, .max_frames = 4, .rewrites_input = true}};
  }

  void act(std::uint64_t what) {
    if (what < 5) {
      submit();
    } else if (what < 9) {
      finish_some();
    } else if (what == 9) {
      rig_.now += std::chrono::microseconds{random_() % 1000};
    } else if (what == 10) {
      rig_.expire();
    } else if (what == 11) {
      cancel_one();
    } else if (what == 12) {
      rig_.replied.lend = random_() % 4 == 0;
    } else if (what == 13) {
      rig_.drop_lent();
    } else {
      rig_.scheduling.turn(rig_.now);
    }
  }

  void submit() {
    const auto pipeline = static_cast<std::uint32_t>(random_() % rig_.plans.size());
    const plan& what = rig_.plans[pipeline];
    const std::string& from = names_[random_() % names_.size()];
    const client_record& client = rig_.client(from);
    if (client.requests >= credits || client.abandoned_requests >= credits) {
      return;
    }
    session_record* const session = pipeline == stateful || random_() % 4 != 0 ? session_of(from, pipeline) : nullptr;
    if (pipeline == stateful && session == nullptr) {
      return;
    }
    const std::int64_t most = what.input().shape.front();
    rig_.submit(++ids_,
                {.frames = static_cast<std::uint32_t>(1 + random_() % static_cast<std::uint64_t>(what.max_frames)),
                 .pipeline = pipeline,
                 .timeout = std::chrono::microseconds{random_() % 3 == 0 ? 1 + random_() % 3000 : 0},
                 .leading = what.input().variable ? 1 + static_cast<std::int64_t>(random_() % 3) % most : most,
                 .session = session},
                from);
    recent_.emplace_back(from, ids_);
  }
  // One of a few of that client and pipeline; now and then one of them is closed. nullptr when all places are taken.
  session_record* session_of(const std::string& from, std::uint32_t pipeline) {
    session_record* const found =
        rig_.sessions.open(rig_.client(from), rig_.plans[pipeline], std::to_string(random_() % 2), rig_.now);
    if (found == nullptr) {
      session_table::close(*sessions_[random_() % sessions_.size()]);
      return nullptr;
    }
    if (std::find(sessions_.begin(), sessions_.end(), found) == sessions_.end()) {
      sessions_.push_back(found);
    }
    return found;
  }
  // Of a stream that has some, whichever.
  void finish_some() {
    const std::size_t streams = rig_.device.streams();
    const std::size_t from = random_() % streams;
    for (std::size_t step = 0; step < streams; ++step) {
      if (rig_.device.pending((from + step) % streams) > 0) {
        rig_.device.finish((from + step) % streams);
        break;
      }
    }
    if (random_() % 2 == 0) {
      rig_.scheduling.turn(rig_.now);
    }
  }

  std::mt19937_64 random_;
  bool in_place_;  // whether payloads may stay where they came in
  scheduler_rig rig_;
  std::uint64_t ids_ = 0;
  std::uint64_t steps_ = 0;
  const std::vector<std::string> names_{"ann", "ben", "cy"};
  std::vector<std::pair<std::string, std::uint64_t>> recent_;
  std::vector<session_record*> sessions_;  // places that have had one
  std::array<std::uint64_t, 5> ended_at_{};
};

struct property_row {
  completion_mode mode;
  std::uint64_t seed;
};

std::string name_of(const ::testing::TestParamInfo<property_row>& row) {
  return (row.param.mode == completion_mode::poll ? "Poll" : "Callback") + std::to_string(row.param.seed);
}

std::vector<property_row> rows(std::uint64_t seeds) {
  std::vector<property_row> all;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    all.push_back({completion_mode::callback, seed});
    all.push_back({completion_mode::poll, seed});
  }
  return all;
}

class SchedulerProperty : public ::testing::TestWithParam<property_row> {};

TEST_P(SchedulerProperty, EverythingAddsUpAfterEveryStep) {
  random_walk walk(GetParam().seed, GetParam().mode, 1 + GetParam().seed % 5,
                   1 + static_cast<int>(GetParam().seed % 3));
  for (int step = 0; step < 4000 && !HasFailure(); ++step) {
    SCOPED_TRACE("seed " + std::to_string(GetParam().seed) + ", step " + std::to_string(step));
    walk.step();
  }
  walk.end_in_peace();
}

TEST_P(SchedulerProperty, EveryRequestIsAnsweredWhenTheDeviceIsLost) {
  random_walk walk(GetParam().seed, GetParam().mode, 1 + GetParam().seed, 1 + static_cast<int>(GetParam().seed % 3));
  for (int step = 0; step < 500 && !HasFailure(); ++step) {
    SCOPED_TRACE("seed " + std::to_string(GetParam().seed) + ", step " + std::to_string(step));
    walk.step();
  }
  walk.end_with_a_fault();
}

INSTANTIATE_TEST_SUITE_P(Seeds, SchedulerProperty, ::testing::ValuesIn(rows(8)), name_of);

class SchedulerCancel : public ::testing::TestWithParam<property_row> {};

// All rows together: 100,000 cancels.
TEST_P(SchedulerCancel, AtEveryStepEndsARequestOnceAndLosesNothing) {
  constexpr std::uint64_t cancels = 12500;
  constexpr std::uint64_t check_every = 64;
  SCOPED_TRACE("seed " + std::to_string(GetParam().seed));
  random_walk walk(GetParam().seed, GetParam().mode, 4 + 4 * GetParam().seed, 4);
  for (std::uint64_t fired = 0; fired < cancels && !HasFailure();) {
    for (std::uint64_t between = 0; between < 4 + fired % 8; ++between) {
      walk.step(check_every);
    }
    fired += walk.cancel_one() ? 1U : 0U;
  }
  walk.end_in_peace();
  for (const request_step each : {request_step::queued, request_step::batched, request_step::executing}) {
    EXPECT_GT(walk.cancelled_at(each), cancels / 100) << name_of(each);
  }
  EXPECT_GT(walk.cancelled_at(request_step::held), 5U) << "it takes an earlier one that is neither done nor cancelled";
}

INSTANTIATE_TEST_SUITE_P(Seeds, SchedulerCancel, ::testing::ValuesIn(rows(4)), name_of);

}  // namespace
}  // namespace penstock

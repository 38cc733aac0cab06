#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "daemon/shard/dispatcher.hpp"
#include "tests/support/dispatch_rig.hpp"

namespace penstock {
namespace {

using testing::dispatch_rig;
using testing::plan_wish;
using testing::rig_shape;
using wire::status;

struct property_row {
  completion_mode mode;
  std::uint64_t seed;
};

std::vector<plan_wish> wishes() {
  return {plan_wish{.shape = {16}, .max_frames = 8},
          plan_wish{.shape = {8, 3}, .variable = true, .max_frames = 5, .priority = stream_priority::high},
          plan_wish{.shape = {100}, .max_frames = 2, .max_delay = std::chrono::nanoseconds{0}},
          plan_wish{.shape = {1}, .max_frames = 64, .priority = stream_priority::low}};
}

// Anything that can happen to the dispatcher, in random order; after every step everything must add up.
class random_walk {
 public:
  explicit random_walk(const property_row& row)
      : random_(row.seed),
        rig_(rig_shape{1 + row.seed % 5, static_cast<int>(1 + row.seed % 3), row.mode, 64}, wishes()) {}

  void step() {
    switch (random_() % 16) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4:
        submit();
        break;
      case 5:
      case 6:
      case 7:
      case 8:
        finish_some();
        break;
      case 9:
        rig_.now += std::chrono::microseconds{random_() % 1000};
        break;
      case 10:
        rig_.expire();
        break;
      case 11:
        cancel();
        break;
      case 12:
        rig_.replied.lend = random_() % 4 == 0;
        break;
      case 13:
        rig_.drop_lent();
        break;
      default:
        rig_.path.turn(rig_.now);
    }
    rig_.check();
  }

  void end_in_peace() {
    rig_.replied.lend = false;
    for (int round = 0; round < 400 && rig_.counters.requests.in_flight > 0; ++round) {
      rig_.drop_lent();
      rig_.settle();
      rig_.device.finish_all();
      rig_.settle();
      rig_.now += std::chrono::milliseconds{1};
    }
    expect_nothing_left();
  }

  void end_with_a_fault() {
    rig_.device.lose("cudaErrorIllegalAddress");
    rig_.settle();
    rig_.path.end_all(status::device_failed, {"lost", "executing", "", "cudaErrorIllegalAddress"});
    rig_.replied.lend = false;
    rig_.drop_lent();
    rig_.settle();
    rig_.check();
    EXPECT_EQ(rig_.counters.requests.in_flight, 0U);
    EXPECT_EQ(rig_.payloads.size(), 0U);
    for (const std::string& each : names_) {
      EXPECT_EQ(rig_.client(each).references, 0U);
    }
  }

 private:
  void submit() {
    const auto pipeline = static_cast<std::uint32_t>(random_() % rig_.plans.size());
    const plan& what = rig_.plans[pipeline];
    const std::string& from = names_[random_() % names_.size()];
    if (rig_.client(from).requests >= 64) {
      return;
    }
    const std::int64_t most = what.input().shape.front();
    const auto random = static_cast<std::int64_t>(random_() >> 1U);
    rig_.submit(++ids_,
                {.frames = static_cast<std::uint32_t>(1 + random % what.max_frames),
                 .pipeline = pipeline,
                 .timeout = std::chrono::microseconds{random_() % 3 == 0 ? 1 + random_() % 3000 : 0},
                 .leading = what.input().variable ? 1 + static_cast<std::int64_t>(random_() % 3) % most : most},
                from);
    recent_.emplace_back(from, ids_);
  }
  void finish_some() {
    const std::size_t stream = random_() % rig_.device.streams();
    if (rig_.device.pending(stream) > 0) {
      rig_.device.finish(stream);
    }
  }
  void cancel() {
    if (recent_.empty()) {
      return;
    }
    const auto& [from, id] = recent_[recent_.size() - 1 - random_() % std::min<std::size_t>(recent_.size(), 40)];
    if (request* const found = rig_.client(from).in_flight.find(id)) {
      rig_.path.end(*found, status::cancelled, "cancelled");
    }
  }
  void expect_nothing_left() {
    rig_.check();
    EXPECT_EQ(rig_.counters.requests.in_flight, 0U);
    EXPECT_EQ(rig_.counters.requests.accepted, ids_);
    EXPECT_EQ(rig_.slots.free(), rig_.slots.size()) << "a slot is lost";
    EXPECT_EQ(rig_.payloads.size(), 0U);
    EXPECT_TRUE(rig_.path.idle());
    EXPECT_EQ(rig_.streams.in_flight(), 0U);
    EXPECT_EQ(rig_.book.next_deadline(), never);
    EXPECT_GT(rig_.counters.requests.results, 0U);
    for (const std::string& each : names_) {
      EXPECT_EQ(rig_.client(each).requests, 0U);
      EXPECT_EQ(rig_.client(each).bytes, 0U);
      EXPECT_EQ(rig_.client(each).references, 0U);
    }
  }

  std::mt19937_64 random_;
  dispatch_rig rig_;
  std::uint64_t ids_ = 0;
  const std::vector<std::string> names_{"ann", "ben", "cy"};
  std::vector<std::pair<std::string, std::uint64_t>> recent_;
};

class DispatcherProperty : public ::testing::TestWithParam<property_row> {};

TEST_P(DispatcherProperty, EverythingAddsUpAfterEveryStep) {
  random_walk walk(GetParam());
  for (int step = 0; step < 4000 && !HasFailure(); ++step) {
    SCOPED_TRACE("seed " + std::to_string(GetParam().seed) + ", step " + std::to_string(step));
    walk.step();
  }
  walk.end_in_peace();
}

TEST_P(DispatcherProperty, EveryRequestIsAnsweredWhenTheDeviceIsLost) {
  random_walk walk(GetParam());
  for (int step = 0; step < 500 && !HasFailure(); ++step) {
    SCOPED_TRACE("seed " + std::to_string(GetParam().seed) + ", step " + std::to_string(step));
    walk.step();
  }
  walk.end_with_a_fault();
}

std::vector<property_row> rows() {
  std::vector<property_row> all;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    all.push_back({completion_mode::callback, seed});
    all.push_back({completion_mode::poll, seed});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Seeds, DispatcherProperty, ::testing::ValuesIn(rows()),
                         [](const ::testing::TestParamInfo<property_row>& row) {
                           return (row.param.mode == completion_mode::poll ? "Poll" : "Callback") +
                                  std::to_string(row.param.seed);
                         });

}  // namespace
}  // namespace penstock

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/dispatch_rig.hpp"

namespace penstock {
namespace {

using testing::dispatch_rig;

/// Notes how many replies there were when it ran.
class noting_replies : public operation {
 public:
  noting_replies(std::unique_ptr<operation> what, const dispatch_rig& in, std::vector<std::size_t>& into)
      : what_(std::move(what)), in_(in), into_(into) {}
  fault run(void* stream, const operation_arguments& with) noexcept override {
    into_.push_back(in_.replied.count);
    return what_->run(stream, with);
  }

 private:
  std::unique_ptr<operation> what_;
  const dispatch_rig& in_;
  std::vector<std::size_t>& into_;
};

// A device whose streams run all batches inline.
class InlineBatch : public ::testing::TestWithParam<completion_mode> {
 protected:
  static constexpr std::int64_t any_steps = 1 << 20;
};

TEST_P(InlineBatch, IsAnsweredInTheTurnThatLaunchesIt) {
  dispatch_rig rig({.mode = GetParam(), .inline_steps = any_steps});
  rig.submit(1);
  rig.path.turn(rig.now);
  EXPECT_EQ(rig.reply(1).next, testing::next_of(rig.payload(1)));
  rig.end_in_peace();
}

TEST_P(InlineBatch, IsAnsweredBeforeAnotherIsRun) {
  dispatch_rig rig({.mode = GetParam(), .inline_steps = any_steps}, {{}, {}, {}});
  std::vector<std::size_t> replies_before;
  for (plan& each : rig.plans) {
    std::unique_ptr<operation>& first = each.stages.front().compiled;
    first = std::make_unique<noting_replies>(std::move(first), rig, replies_before);
  }
  for (std::uint32_t pipeline = 0; pipeline < 3; ++pipeline) {
    rig.submit(pipeline + 1, {.pipeline = pipeline});
  }
  rig.path.turn(rig.now);
  EXPECT_EQ(replies_before, (std::vector<std::size_t>{0, 1, 2}));
  rig.end_in_peace();
}

TEST_P(InlineBatch, GivesBackThePayloadThatStayedInPlace) {
  dispatch_rig rig({.mode = GetParam(), .in_place_bytes = 48, .inline_steps = any_steps});
  rig.submit(1, {.frames = 3});
  rig.path.turn(rig.now);
  EXPECT_EQ(rig.payloads.size(), 0U);
  EXPECT_EQ(rig.reply(1).next, testing::next_of(rig.payload(1)));
  rig.end_in_peace();
}

TEST_P(InlineBatch, StandsBehindWhatTheDeviceHas) {
  dispatch_rig rig({.slots = 4, .streams = 1, .mode = GetParam(), .inline_steps = 16});
  rig.submit(1, {.frames = 2});
  rig.settle();
  ASSERT_EQ(rig.device.pending(), 1U);
  rig.submit(2, {}, "another");
  rig.settle();
  rig.device.finish_all();
  rig.settle();
  EXPECT_EQ(rig.replied.order.front().second, 1U);
  EXPECT_EQ(rig.reply(2, "another").next, testing::next_of(rig.payload(2, "another")));
  rig.end_in_peace();
}

INSTANTIATE_TEST_SUITE_P(Modes, InlineBatch, ::testing::Values(completion_mode::callback, completion_mode::poll),
                         [](const ::testing::TestParamInfo<completion_mode>& mode) {
                           return mode.param == completion_mode::poll ? "Poll" : "Callback";
                         });

}  // namespace
}  // namespace penstock

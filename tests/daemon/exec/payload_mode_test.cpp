#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/scheduler_rig.hpp"

namespace penstock {
namespace {

using testing::manual_device;
using testing::scheduler_rig;

// A device that reads payloads of three frames and more where they came in.
class PayloadInPlace : public ::testing::TestWithParam<completion_mode> {};

TEST_P(PayloadInPlace, LeavesALargePayloadWhereItCameIn) {
  scheduler_rig rig({.slots = 4, .streams = 1, .mode = GetParam(), .in_place_bytes = 48});
  request& large = rig.submit(1, {.frames = 3});
  rig.settle();
  EXPECT_EQ(rig.payloads.size(), 1U);
  EXPECT_NE(std::memcmp(large.home->pinned_input.get(), rig.payload(1).data(), 48), 0);
  rig.scheduling.end(large, wire::status::expired, "too late");
  EXPECT_EQ(rig.payloads.size(), 1U) << "the device may still read it";
  rig.finish(0);
  EXPECT_EQ(rig.payloads.size(), 0U);
  rig.submit(2, {.frames = 3});
  rig.settle();
  rig.finish(0);
  EXPECT_EQ(rig.reply(2).next, testing::next_of(rig.payload(2)));
  rig.end_in_peace();
}

TEST_P(PayloadInPlace, MakesABatchOfItsOwnOfWhatStaysInPlace) {
  scheduler_rig rig({.slots = 8, .streams = 1, .mode = GetParam(), .in_place_bytes = 48});
  rig.submit(1);
  rig.settle();
  rig.submit(2);  // waits in an open slot
  rig.submit(3, {.frames = 3});
  rig.submit(4, {.frames = 3});
  rig.submit(5);
  rig.settle();
  while (rig.device.pending() != 0) {
    rig.finish(0);
  }
  EXPECT_EQ(rig.tracker.of_pipeline(0).batches, 5U);
  for (std::uint64_t id = 1; id <= 5; ++id) {
    EXPECT_EQ(rig.reply(id).next, testing::next_of(rig.payload(id))) << id;
  }
  rig.end_in_peace();
}

// The same, where the result may be written over the payload.
class PayloadRewritten : public PayloadInPlace {
 protected:
  scheduler_rig rig_{{.slots = 4, .streams = 3, .mode = GetParam(), .in_place_bytes = 48}, {{.rewrites_input = true}}};
};

TEST_P(PayloadRewritten, IsTheResult) {
  rig_.device.refuse(manual_device::call::copy_in, "NO_COPY_IN");
  rig_.device.refuse(manual_device::call::copy_out, "NO_COPY_OUT");
  request& large = rig_.submit(1, {.frames = 3});
  rig_.settle();
  const std::byte* const payload = rig_.payloads.bytes(large.index).data();
  EXPECT_EQ(large.home->work.payload, payload_mode::rewritten);
  EXPECT_EQ(large.home->work.input, payload);
  rig_.finish(0);
  EXPECT_EQ(rig_.reply(1).next, testing::next_of(rig_.payload(1)));
  EXPECT_EQ(rig_.payloads.size(), 0U);
}

TEST_P(PayloadRewritten, IsNotWhenItWasCopied) {
  request& small = rig_.submit(1, {.frames = 2});
  rig_.settle();
  EXPECT_EQ(small.home->work.payload, payload_mode::copied);
  rig_.finish(0);
  EXPECT_EQ(rig_.reply(1).next, testing::next_of(rig_.payload(1)));
  rig_.end_in_peace();
}

TEST_P(PayloadRewritten, StaysUntilTheDeviceHasDoneWithIt) {
  request& large = rig_.submit(1, {.frames = 3});
  rig_.settle();
  rig_.scheduling.end(large, wire::status::expired, "too late");
  EXPECT_EQ(rig_.payloads.size(), 1U);
  rig_.finish(0);
  EXPECT_EQ(rig_.payloads.size(), 0U);
  rig_.end_in_peace();
}

TEST_P(PayloadRewritten, IsHeldForTheOrderOfItsSession) {
  session_record& session = rig_.session("one");
  rig_.submit(1, {.frames = 3, .session = &session});
  rig_.submit(2, {.frames = 3, .session = &session});
  request& cancelled = rig_.submit(3, {.frames = 3, .session = &session});
  rig_.settle();
  rig_.finish(1);
  rig_.finish(2);
  EXPECT_EQ(rig_.replies(2), 0U);
  EXPECT_EQ(rig_.payloads.size(), 3U);
  ASSERT_EQ(cancelled.step, request_step::held);
  rig_.scheduling.end(cancelled, wire::status::cancelled, "cancelled");
  EXPECT_EQ(rig_.payloads.size(), 2U);
  rig_.finish(0);
  EXPECT_EQ(rig_.reply(1).next, testing::next_of(rig_.payload(1)));
  EXPECT_EQ(rig_.reply(2).next, testing::next_of(rig_.payload(2)));
  rig_.end_in_peace();
}

TEST_P(PayloadRewritten, IsLetGoOfWithEverything) {
  rig_.submit(1, {.frames = 3});
  rig_.settle();
  rig_.submit(2, {.frames = 3});  // in an open slot
  EXPECT_EQ(rig_.payloads.size(), 2U);
  rig_.scheduling.end_all(wire::status::shutdown, {"stopping", "", "", ""});
  EXPECT_EQ(rig_.payloads.size(), 1U) << "the device writes there";
  rig_.device.finish_all();
  rig_.settle();
  EXPECT_EQ(rig_.payloads.size(), 0U);
}

TEST_P(PayloadRewritten, StaysWhenTheDeviceHasFailed) {
  rig_.submit(1, {.frames = 3});
  rig_.settle();
  rig_.device.lose("cudaErrorIllegalAddress");
  rig_.settle();
  EXPECT_EQ(rig_.reply(1).code, wire::status::device_failed);
  EXPECT_EQ(rig_.payloads.size(), 1U) << "nobody knows when it stops writing";
}

INSTANTIATE_TEST_SUITE_P(Modes, PayloadInPlace, ::testing::Values(completion_mode::callback, completion_mode::poll),
                         [](const ::testing::TestParamInfo<completion_mode>& mode) {
                           return mode.param == completion_mode::poll ? "Poll" : "Callback";
                         });
INSTANTIATE_TEST_SUITE_P(Modes, PayloadRewritten, ::testing::Values(completion_mode::callback, completion_mode::poll),
                         [](const ::testing::TestParamInfo<completion_mode>& mode) {
                           return mode.param == completion_mode::poll ? "Poll" : "Callback";
                         });

/// Notes how many replies there were when it ran.
class noting_replies : public operation {
 public:
  noting_replies(std::unique_ptr<operation> what, const scheduler_rig& in, std::vector<std::size_t>& into)
      : what_(std::move(what)), in_(in), into_(into) {}
  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    into_.push_back(in_.replied.count);
    return what_->run(stream, arguments);
  }

 private:
  std::unique_ptr<operation> what_;
  const scheduler_rig& in_;
  std::vector<std::size_t>& into_;
};

// A device whose streams run all batches inline.
class InlineBatch : public ::testing::TestWithParam<completion_mode> {
 protected:
  static constexpr std::int64_t any_steps = 1 << 20;
};

TEST_P(InlineBatch, IsAnsweredInTheTurnThatLaunchesIt) {
  scheduler_rig rig({.mode = GetParam(), .inline_steps = any_steps});
  rig.submit(1);
  rig.scheduling.turn(rig.now);
  EXPECT_EQ(rig.reply(1).next, testing::next_of(rig.payload(1)));
  rig.end_in_peace();
}

TEST_P(InlineBatch, IsAnsweredBeforeAnotherIsRun) {
  scheduler_rig rig({.mode = GetParam(), .inline_steps = any_steps}, {{}, {}, {}});
  std::vector<std::size_t> replies_before;
  for (plan& each : rig.plans) {
    std::unique_ptr<operation>& first = each.stages.front().compiled;
    first = std::make_unique<noting_replies>(std::move(first), rig, replies_before);
  }
  for (std::uint32_t pipeline = 0; pipeline < 3; ++pipeline) {
    rig.submit(pipeline + 1, {.pipeline = pipeline});
  }
  rig.scheduling.turn(rig.now);
  EXPECT_EQ(replies_before, (std::vector<std::size_t>{0, 1, 2}));
  rig.end_in_peace();
}

TEST_P(InlineBatch, GivesBackThePayloadThatStayedInPlace) {
  scheduler_rig rig({.mode = GetParam(), .in_place_bytes = 48, .inline_steps = any_steps});
  rig.submit(1, {.frames = 3});
  rig.scheduling.turn(rig.now);
  EXPECT_EQ(rig.payloads.size(), 0U);
  EXPECT_EQ(rig.reply(1).next, testing::next_of(rig.payload(1)));
  rig.end_in_peace();
}

TEST_P(InlineBatch, StandsBehindWhatTheDeviceHas) {
  scheduler_rig rig({.slots = 4, .streams = 1, .mode = GetParam(), .inline_steps = 16});
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

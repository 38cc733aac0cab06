#include <cstdint>
#include <cstring>

#include <gtest/gtest.h>

#include "tests/support/dispatch_rig.hpp"

namespace penstock {
namespace {

using testing::dispatch_rig;

// A device that reads payloads of three frames and more where they came in.
class PayloadInPlace : public ::testing::TestWithParam<completion_mode> {};

TEST_P(PayloadInPlace, LeavesALargePayloadWhereItCameIn) {
  dispatch_rig rig({.slots = 4, .streams = 1, .mode = GetParam(), .in_place_bytes = 48});
  request& large = rig.submit(1, {.frames = 3});
  rig.settle();
  EXPECT_EQ(rig.payloads.size(), 1U);
  EXPECT_NE(std::memcmp(large.home->pinned_input.get(), rig.payload(1).data(), 48), 0);
  rig.path.end(large, wire::status::expired, "too late");
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
  dispatch_rig rig({.slots = 8, .streams = 1, .mode = GetParam(), .in_place_bytes = 48});
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
  EXPECT_EQ(rig.book.of_pipeline(0).batches, 5U);
  for (std::uint64_t id = 1; id <= 5; ++id) {
    EXPECT_EQ(rig.reply(id).next, testing::next_of(rig.payload(id))) << id;
  }
  rig.end_in_peace();
}

INSTANTIATE_TEST_SUITE_P(Modes, PayloadInPlace, ::testing::Values(completion_mode::callback, completion_mode::poll),
                         [](const ::testing::TestParamInfo<completion_mode>& mode) {
                           return mode.param == completion_mode::poll ? "Poll" : "Callback";
                         });

}  // namespace
}  // namespace penstock

#include "daemon/batch/batch_builder.hpp"

#include <array>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/hand_made_plan.hpp"
#include "tests/support/manual_device.hpp"
#include "tests/support/start.hpp"

namespace penstock {
namespace {

using std::chrono::microseconds;
using testing::start;

// A builder of batches of at most 8 frames of 16 bytes, with a max_delay of 500 µs.
class batch_builder_fixture {
 public:
  explicit batch_builder_fixture(microseconds max_delay = microseconds{500})
      : plans_(testing::hand_made_plans({{.max_frames = 8, .max_delay = max_delay}})) {}

  batch_builder& builder() { return builder_; }
  close_reason reason_against(payload_mode mode, std::uint32_t leading = 16) {
    request next;
    next.frames = 1;
    next.leading = leading;
    next.payload = mode;
    EXPECT_FALSE(builder_.fits(next));
    return builder_.reason_against(next);
  }
  /// Puts a request of so many frames, received at `start`, into the open batch; opens one if there is none.
  void put(std::uint32_t frames, payload_mode mode = payload_mode::copied) {
    request_.frames = frames;
    request_.leading = 16;
    request_.received = start;
    request_.payload = mode;
    if (builder_.filling() == nullptr) {
      builder_.open(*slots_.claim(), request_);
    }
    builder_.put(request_, std::as_bytes(std::span(payload_)).first(16 * frames));
  }

 private:
  testing::manual_device device_;
  std::vector<plan> plans_;
  wake_event signal_;
  completion_queue completed_{signal_};
  slot_ring slots_{device_, 1, size_for(plans_), false, completed_, signal_};
  std::string payload_ = std::string(128, 'x');
  request request_;
  batch_builder builder_{plans_.front(), SIZE_MAX};
};

struct due_row {
  const char* name;
  std::uint32_t frames;
  stream_room room;
  microseconds waited;  ///< by the oldest request
  std::optional<close_reason> expected;
};

class BatchIsDue : public ::testing::TestWithParam<due_row> {};

TEST_P(BatchIsDue, FollowsTheTable) {
  const due_row& row = GetParam();
  batch_builder_fixture fixture;
  if (row.frames != 0) {
    fixture.put(row.frames);
  }
  EXPECT_EQ(fixture.builder().due(row.room, start + row.waited), row.expected);
}

constexpr std::optional<close_reason> stays_open = std::nullopt;

INSTANTIATE_TEST_SUITE_P(
    BatchBuilder, BatchIsDue,
    ::testing::Values(
        due_row{"NothingClosesWhenEmptyAndIdle", 0, stream_room::idle, microseconds{0}, stays_open},
        due_row{"NothingClosesWhenEmptyAndLate", 0, stream_room::some, microseconds{9000}, stays_open},
        due_row{"AnIdleStreamTakesOneFrameAtOnce", 1, stream_room::idle, microseconds{0}, close_reason::idle},
        due_row{"AnIdleStreamComesBeforeTheDelay", 1, stream_room::idle, microseconds{9000}, close_reason::idle},
        due_row{"BusyStreamsLetTheBatchGrow", 7, stream_room::some, microseconds{499}, stays_open},
        due_row{"TheDelayEndsToTheMicrosecond", 1, stream_room::some, microseconds{500}, close_reason::delay},
        due_row{"ALateBatchGrowsWhileThereIsNoRoom", 7, stream_room::none, microseconds{9000}, stays_open},
        due_row{"AFullBatchClosesWithoutRoom", 8, stream_room::none, microseconds{0}, close_reason::full},
        due_row{"AFullBatchClosesBehindAnother", 8, stream_room::some, microseconds{0}, close_reason::full},
        due_row{"FullIsTheReasonBeforeIdle", 8, stream_room::idle, microseconds{0}, close_reason::full},
        due_row{"FullIsTheReasonBeforeDelay", 8, stream_room::some, microseconds{9000}, close_reason::full}),
    [](const ::testing::TestParamInfo<due_row>& row) { return std::string(row.param.name); });

TEST(BatchIsDue, AtOnceIfItsPayloadStaysInItsMessage) {
  batch_builder_fixture fixture;
  fixture.put(1, payload_mode::in_place);
  EXPECT_EQ(fixture.builder().due(stream_room::none, start), close_reason::full);
}

TEST(BatchIsDue, AtOnceWithoutADelay) {
  batch_builder_fixture fixture(microseconds{0});
  fixture.put(1);
  EXPECT_EQ(fixture.builder().due(stream_room::some, start), close_reason::delay);
}

TEST(NextDecision, IsNeverWithoutFrames) {
  EXPECT_EQ(batch_builder_fixture().builder().next_decision(), never);
}

TEST(NextDecision, IsTheFirstMomentAtWhichADelayCloses) {
  batch_builder_fixture fixture;
  fixture.put(3);
  const time_point then = fixture.builder().next_decision();
  EXPECT_EQ(then, start + microseconds{500});
  EXPECT_FALSE(fixture.builder().due(stream_room::some, then - std::chrono::nanoseconds{1}));
  EXPECT_TRUE(fixture.builder().due(stream_room::some, then));
}

// A builder that leaves payloads of 48 bytes and more in their message.
class PayloadMode : public ::testing::Test {
 protected:
  payload_mode mode_of(std::size_t bytes, bool rewrites = false, std::size_t misaligned = 0) {
    const std::vector<plan> plans = testing::hand_made_plans({{.rewrites_input = rewrites}});
    return batch_builder(plans.front(), 48).mode_of(request_, std::span(payload_).subspan(misaligned, bytes));
  }

  alignas(8) std::array<std::byte, 64> payload_{};
  request request_;
};

TEST_F(PayloadMode, IsCopiedForASmallPayload) {
  EXPECT_EQ(mode_of(47), payload_mode::copied);
}

TEST_F(PayloadMode, IsInPlaceForALargePayload) {
  EXPECT_EQ(mode_of(48), payload_mode::in_place);
}

TEST_F(PayloadMode, IsRewrittenIfTheResultMayLieThere) {
  EXPECT_EQ(mode_of(48, /*rewrites=*/true), payload_mode::rewritten);
}

TEST_F(PayloadMode, IsCopiedIfAnElementWouldBeMisaligned) {
  EXPECT_EQ(mode_of(48, false, 4), payload_mode::copied);
}

TEST_F(PayloadMode, StaysSharedForSharedMemory) {
  request_.payload = payload_mode::shared;
  EXPECT_EQ(mode_of(48), payload_mode::shared);
}

TEST(BatchBuilder, IsFullForARequestThatStaysInItsMessage) {
  batch_builder_fixture fixture;
  fixture.put(1);
  EXPECT_EQ(fixture.reason_against(payload_mode::in_place), close_reason::full);
  EXPECT_EQ(fixture.reason_against(payload_mode::copied, 8), close_reason::extent);
}

}  // namespace
}  // namespace penstock

#include <array>
#include <chrono>
#include <ctime>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/daemon/wheel/wheel_fixture.hpp"

namespace penstock {
namespace {

using namespace std::chrono_literals;

// By this thread.
std::chrono::nanoseconds worked() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds{time.tv_sec} + std::chrono::nanoseconds{time.tv_nsec};
}

/// Takes its time for batches of more frames than some.
class slow_for_many : public operation {
 public:
  slow_for_many(std::unique_ptr<operation> what, std::int64_t quick_frames, std::chrono::milliseconds time)
      : what_(std::move(what)), quick_frames_(quick_frames), time_(time) {}

  fault run(void* stream, const operation_arguments& with) noexcept override {
    if (with.extent.frames > quick_frames_) {
      const auto until = worked() + time_;
      while (worked() < until) {
      }
    }
    return what_->run(stream, with);
  }

 private:
  std::unique_ptr<operation> what_;
  std::int64_t quick_frames_;
  std::chrono::milliseconds time_;
};

/// A device whose streams run inline, and hold what they are not told to.
class InlineWheel : public testing::wheel_fixture {
 protected:
  static constexpr std::int64_t frame_steps = 16;

  void run_inline_up_to(std::chrono::microseconds limit) {
    device_.run_inline_up_to(limit);
    wheel_ = std::make_unique<wheel>(device_, streams, std::array{stream_priority::normal}, GetParam(), states_);
  }
  std::int64_t warm_up() {
    slot& scratch = *slots_->claim();
    const std::int64_t steps = wheel_->warm_up(plans_.front(), scratch);
    ring::drop(scratch);
    slots_->collect();
    return steps;
  }
};

TEST_P(InlineWheel, MeasuresHowManyStepsAreBrief) {
  run_inline_up_to(1h);
  EXPECT_EQ(warm_up(), plans_.front().max_frames * frame_steps);
  std::unique_ptr<operation>& first = plans_.front().stages.front().compiled;
  first = std::make_unique<slow_for_many>(std::move(first), 3, 60ms);
  run_inline_up_to(30ms);
  EXPECT_EQ(warm_up(), 2 * frame_steps);
  first = std::make_unique<slow_for_many>(std::move(first), 0, 60ms);
  EXPECT_EQ(warm_up(), 0);
}

TEST_P(InlineWheel, HandsOverWhatNobodySaidIsBrief) {
  run_inline_up_to(1h);
  launch();
  EXPECT_TRUE(completions().empty());
  EXPECT_EQ(device_.pending(), 1U);
}

TEST_P(InlineWheel, RunsBriefBatchesWithinTheLaunch) {
  run_inline_up_to(1h);
  wheel_->set_brief(plans_.front().place, 2 * frame_steps);
  slot& brief = launch(std::string(32, 'a'));
  EXPECT_EQ(device_.pending(), 0U);
  ASSERT_EQ(completions(), std::vector<slot*>{&brief});
  EXPECT_EQ(std::memcmp(brief.pinned_output.get(), testing::next_of(std::string(32, 'a')).data(), 32), 0);
  wheel_->retire(brief, start);
  EXPECT_EQ(wheel_->in_flight(), 0U);
}

TEST_P(InlineWheel, HandsOverWhatHasMoreSteps) {
  run_inline_up_to(1h);
  wheel_->set_brief(plans_.front().place, 2 * frame_steps);
  for (int batch = 0; batch < streams; ++batch) {
    launch(std::string(48, 'a'));
    EXPECT_TRUE(completions().empty());
  }
  EXPECT_EQ(device_.pending(), 3U);
}

TEST_P(InlineWheel, HandsOverForAWhileWhatHasTakenLonger) {
  constexpr int launches_to_try_more = 1024;
  std::unique_ptr<operation>& first = plans_.front().stages.front().compiled;
  first = std::make_unique<slow_for_many>(std::move(first), 1, 60ms);
  run_inline_up_to(30ms);
  wheel_->set_brief(plans_.front().place, 2 * frame_steps);
  // Whether a batch of so many frames is done within its launch.
  const auto inline_ran = [this](std::size_t frames) {
    slot& batch = launch(std::string(frames * 16, 'a'));
    const bool done = completions() == std::vector<slot*>{&batch};
    device_.finish_all();
    (void)completions();
    wheel_->retire(batch, start);
    ring::drop(batch);
    slots_->collect();
    return done;
  };
  EXPECT_TRUE(inline_ran(2)) << "nothing is known yet";
  EXPECT_FALSE(inline_ran(2));
  for (int each = 1; each < launches_to_try_more - 1; ++each) {
    ASSERT_TRUE(inline_ran(1));
  }
  EXPECT_TRUE(inline_ran(2)) << "tried again";
  EXPECT_FALSE(inline_ran(2));
}

TEST_P(InlineWheel, KeepsTheOrderOfAStreamThatIsTakenByMore) {
  run_inline_up_to(1h);
  wheel_->set_brief(plans_.front().place, frame_steps);
  std::vector<slot*> all;
  for (int batch = 0; batch < streams; ++batch) {
    all.push_back(&launch(std::string(32, 'a')));
  }
  all.push_back(&launch(std::string(16, 'b')));
  ASSERT_EQ(all.back()->streams, all.front()->streams);
  EXPECT_EQ(completions(), (std::vector<slot*>{all.front(), all.back()})) << "a manual stream does all that it has";
}

INSTANTIATE_TEST_SUITE_P(Modes, InlineWheel, ::testing::Values(completion_mode::callback, completion_mode::poll));

}  // namespace
}  // namespace penstock

#include "base/sigmf_recorder.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

namespace penstock {
namespace {

constexpr std::int64_t second_ns = 1'000'000'000;

/// Records blocks of f32 whose clock runs at 1000 samples a second from the index 0 at the time 0.
class SigmfRecorder : public ::testing::Test {
 protected:
  SigmfRecorder() {
    file_ = std::filesystem::temp_directory_path() / ("sigmf-recorder-" + std::to_string(::getpid()) + ".sigmf-meta");
  }
  ~SigmfRecorder() override {
    std::filesystem::remove(file_);
    std::filesystem::remove(sigmf_data_path(file_));
  }

  void open(sigmf_recorder::settings wanted = {}) {
    wanted.meta_file = file_;
    wanted.element = wanted.element.empty() ? "f32" : wanted.element;
    made_.emplace(wanted);
  }
  sigmf_block block(std::int64_t index, std::size_t samples) {
    bytes_.resize(samples * sizeof(float));
    return {
        .bytes = bytes_, .index = index, .time_ns = index * second_ns / 1000, .time_index = index, .time_quality = 2};
  }
  [[nodiscard]] sigmf_meta close() {
    made_.reset();
    std::ostringstream text;
    text << std::ifstream(file_).rdbuf();
    return parse_sigmf(std::move(text).str());
  }

  std::filesystem::path file_;
  std::optional<sigmf_recorder> made_;
  std::vector<std::byte> bytes_;
};

TEST_F(SigmfRecorder, BlocksThatFollowOnAreOneCaptureWithItsIndexTimeAndRate) {
  open();
  made_->append(block(500, 10));
  made_->append(block(510, 90));
  const sigmf_meta meta = close();
  ASSERT_EQ(meta.captures.size(), 1U);
  EXPECT_EQ(meta.captures[0].global_index, 500U);
  EXPECT_EQ(meta.captures[0].time_ns, second_ns / 2);
  EXPECT_EQ(meta.sample_rate, 1000);
  EXPECT_TRUE(meta.annotations.empty());
}

TEST_F(SigmfRecorder, GapEpochAndAnotherTimeBeginCaptures) {
  open();
  made_->append(block(0, 10));
  sigmf_block next = block(30, 10);
  next.lost_before = 20;
  made_->append(next);
  next = block(5, 10);
  next.epoch = 3;
  made_->append(next);
  next = block(15, 10);
  next.epoch = 3;
  next.time_ns += second_ns;
  next.time_quality = 3;
  made_->append(next);
  next = block(25, 10);
  next.epoch = 3;
  next.time_ns += second_ns;
  next.lost_before = 4;
  made_->append(next);
  const sigmf_meta meta = close();
  ASSERT_EQ(meta.captures.size(), 5U);
  EXPECT_EQ(meta.captures[1].sample_start, 10U);
  EXPECT_EQ(meta.captures[1].global_index, 30U);
  EXPECT_FALSE(meta.captures[1].lost_before) << "the index says how many were lost";
  EXPECT_EQ(meta.captures[2].global_index, 5U);
  EXPECT_EQ(meta.captures[2].epoch, 3U);
  EXPECT_EQ(meta.captures[3].global_index, 15U);
  EXPECT_EQ(meta.captures[3].time_ns, second_ns + 15'000'000);
  EXPECT_EQ(meta.captures[4].epoch, 3U);
  EXPECT_EQ(meta.captures[4].lost_before, 4U);
}

TEST_F(SigmfRecorder, OutputOfFewerSamplesCountsItsOwn) {
  open({.sample_shape = {2}, .step = 4});
  sigmf_block next = block(400, 20);  // 10 samples of two numbers
  next.time_index = 408;              // its request began later, as a filter's delay has it
  next.time_ns = 408'000'000;
  made_->append(next);
  next = block(440, 20);
  made_->append(next);
  made_->append(block(520, 20));
  const sigmf_meta meta = close();
  ASSERT_EQ(meta.captures.size(), 2U);
  EXPECT_EQ(meta.channels, 2U);
  EXPECT_EQ(meta.sample_rate, 250);
  EXPECT_EQ(meta.captures[0].global_index, 100U);
  EXPECT_EQ(meta.captures[0].time_ns, 400'000'000) << "known once the rate is";
  EXPECT_EQ(meta.captures[1].sample_start, 20U);
  EXPECT_EQ(meta.captures[1].global_index, 130U);
}

TEST_F(SigmfRecorder, OutputOfARationalRateStandsBetweenSamples) {
  open({.step = 2, .indices = 3});
  // Samples at 0.25, 0.92, 1.58, 2.25, 2.92 … The last block's should begin at 46.25: a sample was lost.
  made_->append(block(0, 4));
  made_->append(block(2, 5));
  made_->append(block(6, 30));
  made_->append(block(26, 30));
  made_->append(block(47, 30));
  const sigmf_meta meta = close();
  ASSERT_EQ(meta.captures.size(), 2U);
  EXPECT_EQ(meta.sample_rate, 1500);
  EXPECT_EQ(meta.captures[0].global_index, 0U);
  EXPECT_EQ(meta.captures[1].sample_start, 69U);
  EXPECT_EQ(meta.captures[1].global_index, 70U) << "47 · 3 / 2, rounded down";
}

TEST_F(SigmfRecorder, AnnotatesWhatIsFilledInSuspectedOrLost) {
  open();
  for (const std::int64_t index : {0, 10, 20}) {
    sigmf_block next = block(index, 10);
    next.filled = index < 20 ? 3 : 0;
    next.loss_suspected = index == 20;
    made_->append(next);
  }
  sigmf_block bare{.bytes = bytes_, .lost_blocks = 2};
  made_->append(bare);
  const sigmf_meta meta = close();
  ASSERT_EQ(meta.captures.size(), 2U);
  EXPECT_FALSE(meta.captures[1].global_index);
  ASSERT_EQ(meta.annotations.size(), 3U);
  EXPECT_NE(meta.annotations[0].find(R"("core:comment":"6 of the samples)"), std::string::npos) << meta.annotations[0];
  EXPECT_NE(meta.annotations[0].find(R"("core:sample_count":20)"), std::string::npos) << meta.annotations[0];
}

TEST_F(SigmfRecorder, RefusesWhatSigmfDoesNotHave) {
  EXPECT_THROW(open({.element = "f16"}), sigmf_error);
  EXPECT_THROW(open({.sample_shape = {1024, 1024}, .step = 1}), sigmf_error);
}

}  // namespace
}  // namespace penstock

#include "kernels/waves.hpp"

#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace penstock {
namespace {

constexpr std::int64_t most_frames = 37;
constexpr std::size_t state_stride = 256;

/// y = 2 x + state[0]; state' = {x + state[0], frames that the session has had}. It counts its runs.
class step_of_sums final : public operation {
 public:
  explicit step_of_sums(std::size_t& runs) : runs_(runs) {}

  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    ++runs_;
    const auto* const x = static_cast<const std::int32_t*>(arguments.inputs[0]);
    const auto* const state = static_cast<const std::int32_t*>(arguments.inputs[1]);
    auto* const y = static_cast<std::int32_t*>(arguments.outputs[0]);
    auto* const after = static_cast<std::int32_t*>(arguments.outputs[1]);
    for (std::int64_t frame = 0; frame < arguments.extent.frames; ++frame) {
      y[frame] = 2 * x[frame] + state[2 * frame];
      after[2 * frame] = x[frame] + state[2 * frame];
      after[2 * frame + 1] = state[2 * frame + 1] + 1;
    }
    return {};
  }

 private:
  std::size_t& runs_;
};

/// Sessions with state in waves of step_of_sums. States start as garbage.
class waves_of_sums : public testing::Test {
 protected:
  waves_of_sums() { std::memset(pool_.data(), 0x5A, pool_.size()); }

  /// One batch: each entry is a session and its next number. Returns the results.
  std::vector<std::int32_t> run(const std::vector<std::pair<int, std::int32_t>>& batch) {
    std::vector<session_frame> table;
    std::vector<std::int32_t> x;
    std::map<int, std::int32_t> newest;
    for (const auto& [session, number] : batch) {
      const auto frame = static_cast<std::int32_t>(table.size());
      const auto before = newest.find(session);
      const std::int32_t previous = before == newest.end() ? -1 : before->second;
      if (previous >= 0) {
        table[static_cast<std::size_t>(previous)].next = frame;
      }
      newest[session] = frame;
      table.push_back({positions_[session]++, 1, 1, previous, -1, session, halves_[session]});
      x.push_back(number);
    }
    std::vector<std::int32_t> y(x.size(), -1);
    const std::array<const void*, 1> inputs{x.data()};
    const std::array<void*, 1> outputs{y.data()};
    EXPECT_FALSE(waves_->run(nullptr, {.inputs = inputs,
                                       .output = y.data(),
                                       .scratch = scratch_.get(),
                                       .extent = {static_cast<std::int64_t>(x.size()), 0},
                                       .session = {table.data(), pool_.data(), state_stride},
                                       .outputs = outputs,
                                       .host_frames = table.data()}));
    for (const auto& [session, frame] : newest) {
      halves_[session] = 1 - halves_[session];
    }
    return y;
  }

  std::size_t runs_ = 0;
  std::unique_ptr<operation> waves_ =
      make_waves_host(std::make_unique<step_of_sums>(runs_), {.inputs = {sizeof(std::int32_t)},
                                                              .outputs = {sizeof(std::int32_t)},
                                                              .state_bytes = 8,
                                                              .max_frames = most_frames});

 private:
  std::unique_ptr<std::byte[]> scratch_ = std::make_unique<std::byte[]>(waves_->scratch_bytes());
  std::array<std::byte, 2 * 16 * state_stride> pool_{};
  std::map<int, std::int64_t> positions_;
  std::map<int, std::int32_t> halves_;
};

TEST_F(waves_of_sums, RunOnceWhereEachSessionHasOneFrame) {
  EXPECT_EQ(run({{3, 10}, {1, 20}, {2, 30}}), (std::vector<std::int32_t>{20, 40, 60}));
  EXPECT_EQ(run({{2, 1}, {3, 2}}), (std::vector<std::int32_t>{32, 14}));
  EXPECT_EQ(runs_, 2U);
}

TEST_F(waves_of_sums, RunOnceForEachFrameOfTheLongestSession) {
  EXPECT_EQ(run({{0, 1}, {1, 100}, {0, 2}, {0, 3}, {1, 200}}), (std::vector<std::int32_t>{2, 200, 5, 9, 500}));
  EXPECT_EQ(runs_, 3U);
}

TEST_F(waves_of_sums, GiveEachSessionWhatItWouldGetAlone) {
  std::mt19937_64 random(7);
  std::map<int, std::int32_t> sums;
  for (int turn = 0; turn < 300; ++turn) {
    std::vector<std::pair<int, std::int32_t>> batch(1 + random() % most_frames);
    std::vector<std::int32_t> expected;
    for (auto& [session, number] : batch) {
      session = static_cast<int>(random() % 16);
      number = static_cast<std::int32_t>(random() % 1000);
      expected.push_back(2 * number + sums[session]);
      sums[session] += number;
    }
    ASSERT_EQ(run(batch), expected) << "turn " << turn;
  }
}

}  // namespace
}  // namespace penstock

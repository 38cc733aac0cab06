#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/daemon/device/device_contract.hpp"
#include "tests/daemon/exec/host_stream_pool.hpp"
#include "tests/daemon/exec/made_up_plan.hpp"
#include "tests/support/hand_made_plan.hpp"

namespace penstock {
namespace {

using testing::gate;
using testing::hold;
using testing::host_stream_pool;
using testing::host_task;
using testing::made_up_plan;
using testing::made_up_stage;

const tensor_spec frame{element_type::u8, {64}, false};

// A byte for each byte: so many times the sum of the inputs, each weighed by its place, and something more.
class blend : public operation {
 public:
  blend(unsigned times, unsigned more) : times_(times), more_(more) {}
  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    const std::size_t bytes = static_cast<std::size_t>(arguments.extent.frames) * frame.bytes();
    auto* const to = static_cast<std::uint8_t*>(arguments.output);
    for (std::size_t index = 0; index < bytes; ++index) {
      unsigned sum = 0;
      for (std::size_t input = 0; input < arguments.inputs.size(); ++input) {
        sum += static_cast<unsigned>(input + 1) * static_cast<const std::uint8_t*>(arguments.inputs[input])[index];
      }
      to[index] = static_cast<std::uint8_t>(times_ * sum + more_);
    }
    return {};
  }

 private:
  unsigned times_;
  unsigned more_;
};

// Shut gates and flags that the test looks at. A hold comes behind its stream pool, so that a test that fails lets go
// of it.
class StreamLanes : public ::testing::TestWithParam<completion_mode> {
 protected:
  static constexpr int threads = 4;

  gate& make_gate() { return *made_.emplace_back(gates_->make()); }
  static std::unique_ptr<operation> through(gate& shut) {
    return std::make_unique<host_task>([&shut] { return shut.run(nullptr, {}); });
  }
  static std::unique_ptr<operation> task(std::function<void()> what) {
    return std::make_unique<host_task>([what = std::move(what)] {
      what();
      return fault{};
    });
  }
  static void await(const std::atomic<bool>& flag) {
    while (!flag.load()) {
      std::this_thread::yield();
    }
  }

  std::unique_ptr<testing::gate_maker> gates_ = testing::make_host_gates();
  std::vector<std::unique_ptr<gate>> made_;
};

TEST_P(StreamLanes, TwoBranchesOfAForkRunAtTheSameTime) {
  gate& left_gate = make_gate();
  gate& right_gate = make_gate();
  std::vector<made_up_stage> stages;
  stages.push_back({"left", {"input"}, through(left_gate), {}, {}});
  stages.push_back({"right", {"input"}, through(right_gate), {}, {}});
  host_stream_pool stream_pool(made_up_plan(0, frame, 1, std::move(stages), {"left", "right"}, 2), 2, threads,
                               GetParam());
  hold left(left_gate);
  hold right(right_gate);
  EXPECT_EQ(stream_pool.what().order.lanes, 2U);
  stream_pool.launch(std::string(64, 'x'));
  EXPECT_TRUE(left.await_entered());
  EXPECT_TRUE(right.await_entered()) << "it waits for the other branch";
  EXPECT_TRUE(stream_pool.completions().empty());
  left.open();
  right.open();
  EXPECT_EQ(stream_pool.await_completions().size(), 1U);
}

TEST_P(StreamLanes, AJoinStartsBehindBothBranchesWhicheverIsLast) {
  for (const bool left_first : {true, false}) {
    gate& left_gate = make_gate();
    gate& right_gate = make_gate();
    std::atomic<bool> left_done{false};
    std::atomic<bool> right_done{false};
    std::atomic<bool> joined{false};
    std::atomic<bool> too_early{false};
    std::vector<made_up_stage> stages;
    stages.push_back({"left", {"input"}, through(left_gate), {}, {}});
    stages.push_back({"right", {"input"}, through(right_gate), {}, {}});
    stages.push_back({"left2", {"left"}, task([&] { left_done = true; }), {}, {}});
    stages.push_back({"right2", {"right"}, task([&] { right_done = true; }), {}, {}});
    stages.push_back({"join",
                      {"left2", "right2"},
                      task([&] {
                        too_early = !left_done || !right_done;
                        joined = true;
                      }),
                      {},
                      {}});
    host_stream_pool stream_pool(made_up_plan(0, frame, 1, std::move(stages), {"join"}, 2), 2, threads, GetParam());
    hold left(left_gate);
    hold right(right_gate);
    stream_pool.launch(std::string(64, 'x'));
    (left_first ? left : right).open();
    await(left_first ? left_done : right_done);
    EXPECT_FALSE(joined);
    EXPECT_TRUE(stream_pool.completions().empty());
    (left_first ? right : left).open();
    EXPECT_EQ(stream_pool.await_completions().size(), 1U);
    EXPECT_TRUE(joined);
    EXPECT_FALSE(too_early);
  }
}

TEST_P(StreamLanes, TheCompletionComesBehindEveryBranchAndItsCopyOut) {
  for (const bool left_first : {true, false}) {
    gate& left_gate = make_gate();
    gate& right_gate = make_gate();
    std::atomic<bool> left_done{false};
    std::atomic<bool> right_done{false};
    std::vector<made_up_stage> stages;
    stages.push_back({"left", {"input"}, through(left_gate), {}, {}});
    stages.push_back({"right", {"input"}, through(right_gate), {}, {}});
    stages.push_back({"left2", {"left"}, task([&] { left_done = true; }), {}, {}});
    stages.push_back({"right2", {"right"}, task([&] { right_done = true; }), {}, {}});
    host_stream_pool stream_pool(made_up_plan(0, frame, 1, std::move(stages), {"left2", "right2"}, 2), 2, threads,
                                 GetParam());
    hold left(left_gate);
    hold right(right_gate);
    stream_pool.launch(std::string(64, 'x'));
    (left_first ? left : right).open();
    await(left_first ? left_done : right_done);
    EXPECT_TRUE(stream_pool.completions().empty());
    (left_first ? right : left).open();
    EXPECT_EQ(stream_pool.await_completions().size(), 1U);
    EXPECT_TRUE(left_done && right_done);
  }
}

// What a batch on other streams does must not keep a batch from its own.
TEST_P(StreamLanes, ABatchBehindAHeldBranchGoesToTheStreamsThatAreFree) {
  gate& first = make_gate();
  std::atomic<int> turn{0};
  std::vector<made_up_stage> stages;
  stages.push_back({"left", {"input"}, std::make_unique<blend>(1, 1), {}, {}});
  stages.push_back({"right",
                    {"input"},
                    std::make_unique<host_task>([&]() -> fault {
                      return turn++ == 0 ? first.run(nullptr, {}) : fault{};  // the first batch alone is held
                    }),
                    {},
                    {}});
  host_stream_pool stream_pool(made_up_plan(0, frame, 1, std::move(stages), {"left"}, 2), 4, threads, GetParam());
  hold held(first);
  const slot& stuck = stream_pool.launch(std::string(64, 'a'));
  EXPECT_TRUE(held.await_entered());
  const slot& free = stream_pool.launch(std::string(64, 'b'));
  const std::vector<slot*> done = stream_pool.await_completions();
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done.front(), &free);
  EXPECT_EQ(stream_pool.output(free, 0), std::string(64, 'c'));
  held.open();
  ASSERT_EQ(stream_pool.await_completions().size(), 1U);
  EXPECT_EQ(stream_pool.output(stuck, 0), std::string(64, 'b'));
}

// Three branches on as many lanes as there are streams, down to one.
TEST_P(StreamLanes, APlanIsRightOnAsFewStreamsAsThereAre) {
  for (const int streams : {1, 2, 3, 8}) {
    std::vector<made_up_stage> stages;
    stages.push_back({"a", {"input"}, std::make_unique<blend>(1, 1), {}, {}});
    stages.push_back({"b", {"input"}, std::make_unique<blend>(3, 0), {}, {}});
    stages.push_back({"c", {"input"}, std::make_unique<blend>(5, 2), {}, {}});
    stages.push_back({"all", {"a", "b", "c"}, std::make_unique<blend>(1, 0), {}, {}});
    host_stream_pool stream_pool(
        made_up_plan(0, frame, 2, std::move(stages), {"all", "b"}, static_cast<std::uint32_t>(streams)), streams,
        threads, GetParam());
    EXPECT_EQ(stream_pool.what().order.lanes, static_cast<std::uint32_t>(std::min(streams, 3)));
    std::vector<slot*> all;
    for (char fill = 1; stream_pool.has_room() && stream_pool.slots().free() > 0; ++fill) {
      all.push_back(&stream_pool.launch(std::string(128, fill)));
    }
    EXPECT_GE(all.size(), static_cast<std::size_t>(streams));
    for (std::size_t done = 0; done < all.size();) {
      const std::vector<slot*> some = stream_pool.await_completions();
      ASSERT_FALSE(some.empty());
      done += some.size();
    }
    for (std::size_t batch = 0; batch < all.size(); ++batch) {
      const unsigned x = static_cast<unsigned>(batch) + 1;
      const auto expected = static_cast<char>((x + 1) + 2 * (3 * x) + 3 * (5 * x + 2));
      EXPECT_EQ(stream_pool.output(*all[batch], 0), std::string(128, expected))
          << streams << " streams, batch " << batch;
      EXPECT_EQ(stream_pool.output(*all[batch], 1), std::string(128, static_cast<char>(3 * x)));
    }
  }
}

// in → a ┬ b → b2 ┬ d → e
//        └ c ─────┴ g        with outputs e and g, and arena memory that is used again as soon as the plan allows.
std::vector<made_up_stage> diamond() {
  const auto made = [](unsigned times, unsigned more, std::uint64_t seed) {
    return std::make_unique<testing::delayed_operation>(std::make_unique<blend>(times, more), seed);
  };
  std::vector<made_up_stage> stages;
  stages.push_back({"a", {"input"}, made(3, 1, 1), {}, {}});
  stages.push_back({"b", {"a"}, made(5, 2, 2), {}, {}});
  stages.push_back({"c", {"a"}, made(7, 3, 3), {}, {}});
  stages.push_back({"b2", {"b"}, made(9, 4, 4), {}, {}});
  stages.push_back({"d", {"b2", "c"}, made(11, 5, 5), {}, {}});
  stages.push_back({"g", {"c"}, made(13, 6, 6), {}, {}});
  stages.push_back({"e", {"d"}, made(15, 7, 7), {}, {}});
  return stages;
}

struct expected_outputs {
  std::string e;
  std::string g;
};

expected_outputs through_diamond(const std::string& payload) {
  expected_outputs made;
  for (const char byte : payload) {
    const unsigned a = 3U * static_cast<unsigned char>(byte) + 1;
    const unsigned b2 = 9 * (5 * a + 2) + 4;
    const unsigned c = 7 * a + 3;
    made.e += static_cast<char>(15 * (11 * (b2 + 2 * c) + 5) + 7);
    made.g += static_cast<char>(13 * c + 6);
  }
  return made;
}

TEST_P(StreamLanes, TenThousandBatchesThroughADiamondAreAllRight) {
  constexpr std::uint64_t seed = 20;
  constexpr int batches = 10000;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  host_stream_pool stream_pool(made_up_plan(0, frame, 8, diamond(), {"e", "g"}, 8), 8, threads, GetParam());
  EXPECT_GT(stream_pool.what().order.lanes, 1U);
  std::vector<std::string> payloads(host_stream_pool::slots_made);
  int launched = 0;
  for (int done = 0; done < batches && !HasFailure();) {
    while (launched < batches && stream_pool.has_room() && stream_pool.slots().free() > 0) {
      slot& filled = *stream_pool.slots().claim();
      std::memset(filled.workspace.get(), 0xA5, stream_pool.what().device_bytes);
      std::memset(filled.pinned_output.get(), 0x5A, stream_pool.what().pinned_output_bytes);
      payloads[filled.index] = testing::payload_of((1 + random() % 8) * frame.bytes(), random());
      stream_pool.launch(filled, payloads[filled.index]);
      ++launched;
    }
    const std::vector<slot*> some = stream_pool.await_completions();
    ASSERT_FALSE(some.empty()) << "the stream pool hangs";
    for (slot* const each : some) {
      const expected_outputs expected = through_diamond(payloads[each->index]);
      ASSERT_EQ(stream_pool.output(*each, 0), expected.e) << "batch " << done;
      ASSERT_EQ(stream_pool.output(*each, 1), expected.g) << "batch " << done;
      stream_pool.drop(*each);
      ++done;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, StreamLanes, ::testing::Values(completion_mode::callback, completion_mode::poll),
                         [](const ::testing::TestParamInfo<completion_mode>& mode) {
                           return mode.param == completion_mode::poll ? "Poll" : "Callback";
                         });

}  // namespace
}  // namespace penstock

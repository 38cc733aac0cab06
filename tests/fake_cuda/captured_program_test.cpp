#include "kernels/captured_program.hpp"

#include <array>
#include <cstring>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/kernel_queue.hpp"
#include "tests/fake_cuda/fake_kernel.hpp"

namespace penstock {
namespace {

using ::testing::ElementsAre;

constexpr std::int64_t most_frames = 37;
constexpr std::size_t state_stride = 256;

class stream_queue final : public kernel_queue {
 public:
  stream_queue() { EXPECT_EQ(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, 0), cudaSuccess); }
  ~stream_queue() override { EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess); }

  fault add(const kernel_call& /*call*/) noexcept override { return {"NOT_CALLED"}; }
  void wait() { EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess); }
  [[nodiscard]] cudaStream_t stream() const noexcept override { return stream_; }

 private:
  fault flush() noexcept override { return {}; }

  cudaStream_t stream_ = nullptr;
};

/// y = 2 x + state[0]; state' = {x + state[0], state[1] + 1}. It keeps the frames of each run and what the last read.
class step_of_sums final : public operation {
 public:
  explicit step_of_sums(std::int64_t frames) : frames_(frames) {}

  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    const auto* const x = static_cast<const std::int32_t*>(arguments.inputs[0]);
    const auto* const state = static_cast<const std::int32_t*>(arguments.inputs[1]);
    auto* const y = static_cast<std::int32_t*>(arguments.outputs[0]);
    auto* const after = static_cast<std::int32_t*>(arguments.outputs[1]);
    for (std::int64_t frame = 0; frame < frames_; ++frame) {
      y[frame] = 2 * x[frame] + state[2 * frame];
      after[2 * frame] = x[frame] + state[2 * frame];
      after[2 * frame + 1] = state[2 * frame + 1] + 1;
    }
    const std::lock_guard lock(mutex);
    runs.push_back(frames_);
    read.assign(x, x + frames_);
    return {};
  }

  static inline std::mutex mutex;
  static inline std::vector<std::int64_t> runs;
  static inline std::vector<std::int32_t> read;

 private:
  std::int64_t frames_;
};

/// A step of so many frames, which launches a step_of_sums.
captured_step sums_of(std::int64_t frames, double microseconds = 10) {
  struct launched {
    explicit launched(std::int64_t count) : sums(count) {}

    step_of_sums sums;
    std::vector<std::array<const void*, 2>> inputs;  // a captured launch keeps their addresses
    std::vector<std::array<void*, 2>> outputs;
  };
  auto kept = std::make_shared<launched>(frames);
  kept->inputs.reserve(100);
  kept->outputs.reserve(100);
  return {
      .frames = frames,
      .scratch_bytes = 100,
      .microseconds = microseconds,
      .enqueue = [kept](cudaStream_t stream, const captured_memory& memory) {
        const auto& inputs = kept->inputs.emplace_back(std::array<const void*, 2>{memory.inputs[0], memory.inputs[1]});
        const auto& outputs = kept->outputs.emplace_back(std::array<void*, 2>{memory.outputs[0], memory.outputs[1]});
        testing::fake_kernel call{&kept->sums,
                                  {.inputs = inputs,
                                   .output = outputs[0],
                                   .scratch = memory.scratch,
                                   .extent = {},
                                   .session = {},
                                   .outputs = outputs}};
        void* arguments[] = {&call};
        return cudaLaunchKernel(&testing::fake_kernel_address, dim3(1), dim3(1), arguments, 0, stream) == cudaSuccess
                   ? fault{}
                   : fault{"LAUNCH"};
      }};
}

wave_layout layout_of_sums() {
  return {
      .inputs = {sizeof(std::int32_t)}, .outputs = {sizeof(std::int32_t)}, .state_bytes = 8, .max_frames = most_frames};
}

std::string refusal_of(captured_step step) {
  try {
    captured_program({.inputs = {4}, .outputs = {4}, .state_bytes = 0, .max_frames = 1}, {std::move(step)});
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

/// Sessions with state. States start as garbage.
class sessions_of_sums {
 public:
  sessions_of_sums() { std::memset(pool_.data(), 0x5A, pool_.size()); }

  struct batch {
    std::vector<session_frame> table;
    std::vector<std::int32_t> x;
    std::vector<std::int32_t> y;
  };

  /// Enqueues one batch: each entry is a session and its next number.
  std::unique_ptr<batch> enqueue(captured_program& program, stream_queue& queue,
                                 const std::vector<std::pair<int, std::int32_t>>& frames) {
    auto made = std::make_unique<batch>();
    std::map<int, std::int32_t> newest;
    for (const auto& [session, number] : frames) {
      const auto frame = static_cast<std::int32_t>(made->table.size());
      const auto before = newest.find(session);
      const std::int32_t previous = before == newest.end() ? -1 : before->second;
      if (previous >= 0) {
        made->table[static_cast<std::size_t>(previous)].next = frame;
      }
      newest[session] = frame;
      made->table.push_back({positions_[session]++, 1, 1, previous, -1, session, halves_[session]});
      made->x.push_back(number);
    }
    made->y.assign(made->x.size(), -1);
    const std::array<const void*, 1> inputs{made->x.data()};
    const std::array<void*, 1> outputs{made->y.data()};
    EXPECT_FALSE(program.run(&queue, {.inputs = inputs,
                                      .output = made->y.data(),
                                      .scratch = nullptr,
                                      .extent = {static_cast<std::int64_t>(made->x.size()), 0},
                                      .session = {made->table.data(), pool_.data(), state_stride},
                                      .outputs = outputs,
                                      .host_frames = made->table.data()}));
    for (const auto& [session, frame] : newest) {
      halves_[session] = 1 - halves_[session];
    }
    return made;
  }

 private:
  std::array<std::byte, 2 * 16 * state_stride> pool_{};
  std::map<int, std::int64_t> positions_;
  std::map<int, std::int32_t> halves_;
};

class CapturedProgram : public ::testing::Test {
 protected:
  CapturedProgram() { step_of_sums::runs.clear(); }

  std::vector<std::int32_t> run(const std::vector<std::pair<int, std::int32_t>>& frames) {
    const auto made = sessions_.enqueue(program_, queue_, frames);
    queue_.wait();
    return made->y;
  }

  captured_program program_{layout_of_sums(), {sums_of(8), sums_of(1), sums_of(3)}};
  stream_queue queue_;
  sessions_of_sums sessions_;
};

TEST_F(CapturedProgram, TakesTheSmallestBucketThatABatchFitsIn) {
  step_of_sums::runs.clear();
  EXPECT_THAT(run({{0, 5}}), ElementsAre(10));
  EXPECT_THAT(run({{0, 5}, {1, 6}}), ElementsAre(15, 12));
  EXPECT_THAT(step_of_sums::read, ElementsAre(5, 6, 0));
  EXPECT_THAT(run({{0, 1}, {1, 2}, {2, 3}, {3, 4}}), ElementsAre(12, 10, 6, 8));
  EXPECT_THAT(step_of_sums::runs, ElementsAre(1, 3, 8));
}

TEST_F(CapturedProgram, CutsABatchThatFitsInNone) {
  step_of_sums::runs.clear();
  std::vector<std::pair<int, std::int32_t>> batch;
  for (int each = 0; each < 11; ++each) {
    batch.emplace_back(each, each);
  }
  EXPECT_THAT(run(batch), ElementsAre(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20));
  EXPECT_THAT(step_of_sums::runs, ElementsAre(8, 3));
}

TEST(CapturedPrograms, TakeTheBucketsThatTakeTheLeastTimeTogether) {
  captured_program program(layout_of_sums(), {sums_of(1, 10), sums_of(4, 12), sums_of(16, 50)});
  stream_queue queue;
  sessions_of_sums sessions;
  const auto runs_of = [&](int frames) {
    step_of_sums::runs.clear();
    std::vector<std::pair<int, std::int32_t>> batch;
    for (int each = 0; each < frames; ++each) {
      batch.emplace_back(each, each);
    }
    const auto made = sessions.enqueue(program, queue, batch);
    queue.wait();
    return step_of_sums::runs;
  };
  EXPECT_THAT(runs_of(5), ElementsAre(4, 1));
  EXPECT_THAT(runs_of(6), ElementsAre(4, 4));
  EXPECT_THAT(runs_of(9), ElementsAre(4, 4, 1));
  EXPECT_THAT(runs_of(13), ElementsAre(16));
}

TEST_F(CapturedProgram, RunsOnceForEachFrameOfTheLongestSession) {
  step_of_sums::runs.clear();
  EXPECT_THAT(run({{0, 1}, {1, 100}, {0, 2}, {0, 3}, {1, 200}}), ElementsAre(2, 200, 5, 9, 500));
  EXPECT_THAT(step_of_sums::runs, ElementsAre(3, 3, 1));
}

TEST_F(CapturedProgram, GivesEachSessionWhatItWouldGetAlone) {
  std::mt19937_64 random(7);
  std::map<int, std::int32_t> sums;
  for (int turn = 0; turn < 100; ++turn) {
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

TEST(CapturedPrograms, GiveStreamsThatRunAtOnceMemoryOfTheirOwn) {
  for (const std::size_t sets : {1U, 2U, 8U}) {
    captured_program program(layout_of_sums(), {sums_of(4)}, sets);
    std::array<stream_queue, 3> queues;
    std::array<sessions_of_sums, 3> sessions;
    for (int turn = 0; turn < 100; ++turn) {
      std::vector<std::unique_ptr<sessions_of_sums::batch>> batches;
      for (int each = 0; each < 3; ++each) {
        const auto place = static_cast<std::size_t>(each);
        batches.push_back(sessions[place].enqueue(program, queues[place], {{0, 1}, {1, each}}));
      }
      for (int each = 0; each < 3; ++each) {
        const auto place = static_cast<std::size_t>(each);
        queues[place].wait();
        ASSERT_THAT(batches[place]->y, ElementsAre(2 + turn, (turn + 2) * each)) << sets << " sets, turn " << turn;
      }
    }
  }
}

TEST(CapturedPrograms, ThatShareMemoryRunAfterEachOther) {
  captured_program program(layout_of_sums(), {sums_of(1)}, 1);
  stream_queue held;
  stream_queue next;
  sessions_of_sums one;
  sessions_of_sums other;
  std::promise<void> go;
  std::shared_future<void> may_go = go.get_future().share();
  ASSERT_EQ(cudaStreamAddCallback(
                held.stream(),
                [](cudaStream_t, cudaError_t, void* wait) { static_cast<std::shared_future<void>*>(wait)->wait(); },
                &may_go, 0),
            cudaSuccess);
  const auto first = one.enqueue(program, held, {{0, 1}});
  const auto second = other.enqueue(program, next, {{0, 2}});
  cudaEvent_t reached = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&reached, cudaEventDisableTiming), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(reached, next.stream()), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(reached), cudaErrorNotReady);
  go.set_value();
  next.wait();
  EXPECT_EQ(cudaEventDestroy(reached), cudaSuccess);
  EXPECT_THAT(first->y, ElementsAre(2));
  EXPECT_THAT(second->y, ElementsAre(4));
}

TEST(CapturedPrograms, AreRefusedIfAStepFailsOrWaitsWhileItIsCaptured) {
  EXPECT_EQ(refusal_of({.frames = 1,
                        .scratch_bytes = 0,
                        .enqueue = [](cudaStream_t, const captured_memory&) { return fault{"NO_ALGORITHM"}; }}),
            "could not run a program of one frame: NO_ALGORITHM");
  EXPECT_EQ(refusal_of({.frames = 4,
                        .scratch_bytes = 0,
                        .enqueue =
                            [](cudaStream_t stream, const captured_memory&) {
                              return cudaStreamSynchronize(stream) == cudaSuccess ? fault{} : fault{"IT_WAITED"};
                            }}),
            "could not capture a program of 4 frames: IT_WAITED");
  // The capture has ended: this thread may allocate again.
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 1), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
}

TEST(CapturedPrograms, ReadResultsWhereAStepHasPutThem) {
  captured_step step{
      .frames = 2, .scratch_bytes = 64, .enqueue = [](cudaStream_t stream, const captured_memory& memory) {
        memory.outputs[0] = memory.scratch + 32;
        return cudaMemcpyAsync(memory.scratch + 32, memory.inputs[0], 8, cudaMemcpyDeviceToDevice, stream) ==
                       cudaSuccess
                   ? fault{}
                   : fault{"COPY"};
      }};
  captured_program program({.inputs = {4}, .outputs = {4}, .state_bytes = 0, .max_frames = 5}, {step});
  stream_queue queue;
  std::array<std::int32_t, 5> x{1, 2, 3, 4, 5};
  std::array<std::int32_t, 5> y{};
  const void* const inputs[] = {x.data()};
  EXPECT_FALSE(
      program.run(&queue, {.inputs = inputs, .output = y.data(), .scratch = nullptr, .extent = {5, 0}, .session = {}}));
  queue.wait();
  EXPECT_EQ(y, x);
}

}  // namespace
}  // namespace penstock

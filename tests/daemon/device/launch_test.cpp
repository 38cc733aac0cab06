#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/daemon/device/device_contract.hpp"

namespace penstock::testing {
namespace {

constexpr std::size_t width = 64;

/// A frame on a device, and operations that go over it one behind the other, back and forth between two buffers.
class frame_on_device {
 public:
  explicit frame_on_device(device& on)
      : pinned_(on.allocate_pinned(width * sizeof(float))),
        buffers_{on.allocate(width * sizeof(float)), on.allocate(width * sizeof(float))} {}

  [[nodiscard]] float* values() const noexcept { return reinterpret_cast<float*>(pinned_.get()); }
  [[nodiscard]] const void* latest() const noexcept { return buffers_[turn_].get(); }

  /// `first`, first + 1, …
  void send(stream& on, float first) {
    for (std::size_t at = 0; at < width; ++at) {
      values()[at] = first + static_cast<float>(at);
    }
    EXPECT_ENQUEUED(on.copy_in(buffers_[turn_].get(), pinned_.get(), width * sizeof(float)));
  }
  void launch(stream& on, operation& what) {
    const void* const from = latest();
    turn_ = 1 - turn_;
    from_.push_back(from);
    EXPECT_ENQUEUED(on.launch(what, {{&from_.back(), 1}, buffers_[turn_].get(), nullptr, {1, width}, {}}));
  }
  void receive(stream& on) const { EXPECT_ENQUEUED(on.copy_out(pinned_.get(), latest(), width * sizeof(float))); }

 private:
  device_memory pinned_;
  device_memory buffers_[2];
  std::size_t turn_ = 0;
  std::deque<const void*> from_;  // alive until the work is done
};

/// An operation that tells when `run` has returned: then, on the host, its work is done.
class told_operation final : public operation {
 public:
  explicit told_operation(operation& what) noexcept : what_(what) {}

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    const fault failed = what_.run(stream, arguments);
    returned_.release();
    return failed;
  }
  /// Once. False when that takes more than a minute.
  [[nodiscard]] bool await_return() { return returned_.try_acquire_for(std::chrono::minutes{1}); }

 private:
  operation& what_;
  std::binary_semaphore returned_{0};
};

class launch_contract : public device_contract {
 protected:
  [[nodiscard]] std::unique_ptr<operation> affine(double a, double b) {
    parameters settings;
    settings.set("a", a);
    settings.set("b", b);
    return target().compile("affine", {settings, inputs_, 1});
  }
  /// That leaves each sample as it is, by another kernel.
  [[nodiscard]] std::unique_ptr<operation> rectangle() {
    parameters settings;
    settings.set("window", std::string("rectangular"));
    return target().compile("window", {settings, inputs_, 1});
  }

 private:
  const std::vector<tensor_spec> inputs_{{.type = element_type::f32, .shape = {width}}};
};

// x to k − x, another k each time: what comes out depends on the order. Each number of operations comes twice:
// the second time others are where the first ones were.
TEST_P(launch_contract, RunsAnyNumberOfOperationsInTheirOrder) {
  const auto queue = open_stream();
  const auto same = rectangle();
  frame_on_device frame(target());
  for (int round = 2; round <= 81; ++round) {
    const int count = round / 2;
    std::vector<std::unique_ptr<operation>> turned;
    float expected = 0.0F;
    float sign = 1.0F;
    frame.send(*queue, static_cast<float>(count));
    for (int at = 0; at < count; ++at) {
      const int k = 3 * at + count;
      turned.push_back(affine(-1.0, k));
      frame.launch(*queue, *turned.back());
      expected = static_cast<float>(k) - expected;
      sign = -sign;
      if ((at * count) % 3 == 1) {
        frame.launch(*queue, *same);
      }
    }
    frame.receive(*queue);
    EXPECT_ENQUEUED(queue->synchronize());
    for (std::size_t at = 0; at < width; ++at) {
      ASSERT_EQ(frame.values()[at], expected + sign * static_cast<float>(count + static_cast<int>(at))) << count;
    }
  }
}

// As many on two streams by turns, of which one is held: neither has the other's arguments.
TEST_P(launch_contract, KeepsTheOperationsOfEachStreamApart) {
  const auto busy = open_stream();
  const auto free = open_stream();
  frame_on_device of_busy(target());
  frame_on_device of_free(target());
  std::vector<std::unique_ptr<operation>> steps;
  const auto enqueue = [&] {
    of_busy.send(*busy, 1000.0F);
    of_free.send(*free, 0.0F);
    for (int at = 1; at <= 6; ++at) {
      steps.push_back(affine(1.0, -10.0 * at));
      of_busy.launch(*busy, *steps.back());
      steps.push_back(affine(1.0, at));
      of_free.launch(*free, *steps.back());
    }
    of_busy.receive(*busy);
    of_free.receive(*free);
    EXPECT_ENQUEUED(free->synchronize());
  };
  enqueue();
  EXPECT_ENQUEUED(busy->synchronize());
  const auto held = shut(*busy);
  enqueue();
  held->open();
  EXPECT_ENQUEUED(busy->synchronize());
  for (std::size_t at = 0; at < width; ++at) {
    ASSERT_EQ(of_free.values()[at], static_cast<float>(at) + 21.0F);
    ASSERT_EQ(of_busy.values()[at], static_cast<float>(at) + 790.0F);
  }
}

// A batch is enqueued before the one in front of it has begun: neither's arguments become the other's.
TEST_P(launch_contract, LeavesWhatIsEnqueuedAsItIs) {
  const auto queue = open_stream();
  frame_on_device first(target());
  frame_on_device second(target());
  std::vector<std::unique_ptr<operation>> steps;
  const auto enqueue = [&](frame_on_device& frame, double more) {
    frame.send(*queue, 0.0F);
    for (int at = 0; at < 4; ++at) {
      steps.push_back(affine(1.0, more));
      frame.launch(*queue, *steps.back());
    }
    frame.receive(*queue);
  };
  enqueue(first, 7.0);
  EXPECT_ENQUEUED(queue->synchronize());
  const auto held = shut(*queue);
  enqueue(first, 1.0);
  enqueue(second, 100.0);
  held->open();
  EXPECT_ENQUEUED(queue->synchronize());
  for (std::size_t at = 0; at < width; ++at) {
    ASSERT_EQ(first.values()[at], static_cast<float>(at) + 4.0F);
    ASSERT_EQ(second.values()[at], static_cast<float>(at) + 400.0F);
  }
}

// No other call follows: what was launched begins all the same, and writes to pinned memory, as it may.
TEST_P(launch_contract, BeginsWithAFlush) {
  const std::unique_ptr<operation> step = affine(1.0, 10.0);
  ASSERT_TRUE(step->single_pass());
  const device_memory pinned = target().allocate_pinned(2 * width * sizeof(float));
  auto* const values = reinterpret_cast<float*>(pinned.get());
  values[width - 1] = 5.0F;
  const void* const from = values;
  told_operation told(*step);
  const auto queue = open_stream();
  EXPECT_ENQUEUED(queue->launch(told, {{&from, 1}, values + width, nullptr, {1, width}, {}}));
  EXPECT_ENQUEUED(queue->flush());
  ASSERT_TRUE(told.await_return());
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::minutes{1};
  const std::atomic_ref<float> last(values[2 * width - 1]);
  while (last.load() == 0.0F && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::yield();
  }
  EXPECT_EQ(last.load(), 15.0F);
}

// `detect` clears its output before its kernels: behind those of the operations before it.
TEST_P(launch_contract, KeepsOtherWorkOfAnOperationInItsOrder) {
  constexpr std::size_t results = 4;
  parameters settings;
  settings.set("high", 100.0);
  settings.set("max_events", std::int64_t{1});
  const std::vector<tensor_spec> frames{{.type = element_type::f32, .shape = {width}}};
  const auto detect = target().compile("detect", {settings, frames, 1});
  const device_memory scratch = target().allocate(std::max<std::size_t>(1, detect->scratch_bytes()));
  const device_memory found = target().allocate(results * sizeof(float));
  const device_memory pinned = target().allocate_pinned(results * sizeof(float));
  const auto* const events = reinterpret_cast<const float*>(pinned.get());
  const auto queue = open_stream();
  frame_on_device frame(target());
  const auto step = affine(1.0, 10.0);
  for (int round = 0; round < 3; ++round) {
    frame.send(*queue, static_cast<float>(round));
    for (int at = 0; at < 5; ++at) {
      frame.launch(*queue, *step);
    }
    const void* const from = frame.latest();
    EXPECT_ENQUEUED(queue->launch(*detect, {{&from, 1}, found.get(), scratch.get(), {1, width}, {}}));
    EXPECT_ENQUEUED(queue->copy_out(pinned.get(), found.get(), results * sizeof(float)));
    EXPECT_ENQUEUED(queue->synchronize());
    // From 50 + round on, rising by one: one event, whose peak is the last sample.
    EXPECT_EQ(std::vector<float>(events, events + results),
              (std::vector<float>{1, 1, width - 1, static_cast<float>(round) + 50.0F + width - 1}));
  }
}

INSTANTIATE_TEST_SUITE_P(backend, launch_contract, ::testing::Values("host", "cuda"), name_of_backend);

}  // namespace
}  // namespace penstock::testing

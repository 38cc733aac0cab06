#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "daemon/exec/stream_pool.hpp"
#include "daemon/pipeline/check.hpp"
#include "tests/daemon/device/device_contract.hpp"

namespace penstock::testing {
namespace {

constexpr std::int64_t width = 512;
constexpr int taps = 64;

// A short branch, a long one, and a join of both: 2·x + 1, the sum of the x around it, and these added up.
pipeline_declaration diamond() {
  pipeline_declaration made;
  made.name = "diamond";
  made.input = {element_type::f32, {width}, false};
  made.batch.max_frames = 8;
  made.stages.resize(3);
  stage_declaration& quick = made.stages[0];
  stage_declaration& slow = made.stages[1];
  stage_declaration& join = made.stages[2];
  quick.name = "quick";
  quick.op = "affine";
  quick.from = {"input"};
  quick.settings.set("a", 2.0);
  quick.settings.set("b", 1.0);
  slow.name = "slow";
  slow.op = "correlate";
  slow.from = {"input"};
  slow.settings.set("template", std::vector<double>(taps, 1.0));
  slow.settings.set("mode", std::string("same"));
  slow.settings.set("method", std::string("direct"));
  join.name = "join";
  join.op = "add";
  join.from = {"quick", "slow"};
  return check_pipeline(std::move(made));
}

class diamond_on_streams : public device_contract {
 protected:
  static constexpr std::size_t slots_made = 16;

  void start() {
    plans_.push_back(compile_plan(diamond(), 0, target(), 8));
    ASSERT_EQ(plans_[0].order.lanes, 2U);
    slots_ = std::make_unique<slot_ring>(target(), slots_made, size_for(plans_), false, completed_, signal_);
    states_ = std::make_unique<state_pool>(target(), plans_, 1);
    stream_pool_ =
        std::make_unique<stream_pool>(target(), 8, std::array{stream_class{}}, completion_mode::callback, *states_);
    poison_ = target().allocate_pinned(plans_[0].device_bytes);
    std::memset(poison_.get(), 0xFF, plans_[0].device_bytes);  // NaN, whoever reads it
    poisoner_ = target().open_stream(stream_priority::normal);
  }
  // Every sample of a batch has one value of its own.
  void launch(float value) {
    slot& filled = *slots_->claim();
    filled.work.pipeline = plans_.data();
    filled.work.leading = width;
    filled.work.frames = 1 + static_cast<std::int64_t>(value) % 8;
    EXPECT_FALSE(poisoner_->copy_in(filled.workspace.get(), poison_.get(), plans_[0].device_bytes));
    EXPECT_FALSE(poisoner_->synchronize());
    std::memset(filled.pinned_output.get(), 0xFF, plans_[0].pinned_output_bytes);
    auto* const samples = reinterpret_cast<float*>(filled.pinned_input.get());
    std::fill(samples, samples + filled.work.frames * width, value);
    values_[filled.index] = value;
    EXPECT_FALSE(stream_pool_->launch(filled, time_point{}).error);
  }
  // Takes what has come; how many of its samples are not what they must be.
  std::int64_t take_wrong() {
    std::int64_t wrong = 0;
    for (completion_node* node = completed_.take(); node != nullptr;) {
      slot& done = *node->owner;
      node = node->next;
      EXPECT_FALSE(done.completed.status);
      stream_pool_->retire(done, time_point{});
      const auto* const sums = reinterpret_cast<const float*>(done.pinned_output.get());
      const float value = values_[done.index];
      for (std::int64_t at = 0; at < done.work.frames * width; ++at) {
        const std::int64_t place = at % width;
        // "same" takes the middle of the full correlation: so many of the taps lie within the frame.
        const std::int64_t first = std::max<std::int64_t>(place - taps / 2, 0);
        const std::int64_t last = std::min<std::int64_t>(place - taps / 2 + taps - 1, width - 1);
        const float right = 2 * value + 1 + value * static_cast<float>(last - first + 1);
        wrong += sums[at] == right ? 0 : 1;
      }
      slot_ring::drop(done);
    }
    slots_->collect();
    return wrong;
  }

  std::vector<plan> plans_;
  wake_event signal_;
  completion_queue completed_{signal_};
  std::unique_ptr<slot_ring> slots_;
  std::unique_ptr<state_pool> states_;
  std::unique_ptr<stream_pool> stream_pool_;
  device_memory poison_;
  std::unique_ptr<stream> poisoner_;
  std::array<float, slots_made> values_{};
};

// A join that began too early, or a buffer that two branches shared, would show NaN or another batch's value.
TEST_P(diamond_on_streams, NeverGivesACorruptedBatchInTenThousand) {
  ASSERT_NO_FATAL_FAILURE(start());
  constexpr int batches = 10000;
  std::int64_t wrong = 0;
  for (int launched = 0; launched < batches;) {
    if (stream_pool_->room(stream_priority::normal) != stream_room::none && slots_->free() > 0) {
      launch(static_cast<float>(launched++ % 1000));
    } else {
      std::this_thread::yield();
    }
    wrong += take_wrong();
  }
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::minutes{1};
  while (stream_pool_->in_flight() != 0 && std::chrono::steady_clock::now() < give_up) {
    wrong += take_wrong();
    std::this_thread::yield();
  }
  EXPECT_EQ(stream_pool_->in_flight(), 0U);
  EXPECT_EQ(wrong, 0);
}

INSTANTIATE_TEST_SUITE_P(backends, diamond_on_streams, ::testing::Values("host", "cuda"),
                         [](const auto& backend) { return std::string(backend.param); });

}  // namespace
}  // namespace penstock::testing

#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>

#include "daemon/device/host/device.hpp"
#include "daemon/exec/stream_pool.hpp"

namespace penstock::testing {

/// A stream pool over the host device, for batches of one plan.
class host_stream_pool {
 public:
  static constexpr std::size_t slots_made = 16;

  host_stream_pool(plan pipeline, int streams, int threads, completion_mode mode) : device_(threads) {
    const stream_class classes[] = {pipeline.streams()};
    plans_.push_back(std::move(pipeline));
    slots_.emplace(device_, slots_made, size_for(plans_), mode == completion_mode::poll, completed_, signal_);
    states_.emplace(device_, plans_, 1);
    stream_pool_.emplace(device_, streams, classes, mode, *states_);
  }

  [[nodiscard]] const plan& what() const noexcept { return plans_.front(); }
  [[nodiscard]] slot_ring& slots() noexcept { return *slots_; }
  [[nodiscard]] bool has_room() const noexcept { return stream_pool_->room(priority()) != stream_room::none; }
  [[nodiscard]] std::size_t in_flight() const noexcept { return stream_pool_->in_flight(); }

  /// Launches a batch of frames with that payload. There is room, and a slot.
  slot& launch(slot& filled, const std::string& payload) {
    filled.work.pipeline = &what();
    filled.work.leading = what().input().shape.front();
    filled.work.frames = static_cast<std::int64_t>(payload.size() / what().input().bytes());
    payload.copy(reinterpret_cast<char*>(filled.pinned_input.get()), payload.size());
    EXPECT_FALSE(stream_pool_->launch(filled, time_point{}).error);
    return filled;
  }
  slot& launch(const std::string& payload) { return launch(*slots_->claim(), payload); }
  /// Completions that have come, retired, oldest first. Their slots are the test's to drop.
  [[nodiscard]] std::vector<slot*> completions() {
    stream_pool_->poll();
    std::vector<slot*> all;
    for (completion_node* node = completed_.take(); node != nullptr; node = node->next) {
      EXPECT_FALSE(node->status) << node->status.name;
      all.push_back(node->owner);
    }
    for (slot* each : all) {
      stream_pool_->retire(*each, each->work.launched);
    }
    return all;
  }
  /// Blocks until there are some; none when they don't come.
  [[nodiscard]] std::vector<slot*> await_completions() {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds{20};
    for (;;) {
      signal_.prepare();
      std::vector<slot*> all = completions();
      bool woken = true;
      if (all.empty() && stream_pool_->polling()) {
        std::this_thread::yield();
        woken = std::chrono::steady_clock::now() < give_up;
      } else if (all.empty()) {
        pollfd descriptor{signal_.descriptor(), POLLIN, 0};
        woken = ::poll(&descriptor, 1, 20000) == 1;
      }
      signal_.awake();
      if (!all.empty() || !woken) {
        return all;
      }
    }
  }
  void drop(slot& done) {
    slot_ring::drop(done);
    slots_->collect();
  }
  /// What a batch left in the output of that stage.
  [[nodiscard]] std::string output(const slot& slot, std::size_t index) const {
    const std::size_t bytes = what().output_spec(index).bytes() * static_cast<std::size_t>(slot.work.frames);
    return {reinterpret_cast<const char*>(slot.pinned_output.get()) + what().outputs[index].pinned_offset, bytes};
  }

 private:
  [[nodiscard]] stream_priority priority() const noexcept { return what().declaration.priority; }

  host_device device_;
  std::vector<plan> plans_;
  wake_event signal_;
  completion_queue completed_{signal_};
  std::optional<slot_ring> slots_;
  std::optional<state_pool> states_;
  std::optional<stream_pool> stream_pool_;
};

}  // namespace penstock::testing

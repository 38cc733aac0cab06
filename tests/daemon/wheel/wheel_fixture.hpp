#pragma once

#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "daemon/wheel/wheel.hpp"
#include "tests/support/hand_made_plan.hpp"
#include "tests/support/manual_device.hpp"

namespace penstock::testing {

/// A wheel over three streams and the slots to fill it, in each completion mode.
class wheel_fixture : public ::testing::TestWithParam<completion_mode> {
 protected:
  static constexpr int streams = 3;
  static constexpr time_point start{std::chrono::hours{1}};

  wheel_fixture() { make_wheel(true); }

  void make_wheel(bool events_come_first) {
    device_.let_events_come_first(events_come_first);
    wheel_ = std::make_unique<wheel>(device_, streams, std::array{stream_priority::normal}, GetParam(), states_);
  }

  slot& batch_of(const std::string& payload) {
    slot& filled = *slots_->claim();
    filled.work.pipeline = &plans_.front();
    filled.work.leading = 16;
    filled.work.frames = static_cast<std::int64_t>(payload.size() / 16);
    std::memcpy(filled.pinned_input.get(), payload.data(), payload.size());
    return filled;
  }
  slot& launch(const std::string& payload = std::string(16, 'x')) {
    slot& filled = batch_of(payload);
    EXPECT_FALSE(wheel_->launch(filled, start).what);
    return filled;
  }
  // Every slot whose completion has come, oldest first.
  std::vector<slot*> completions() {
    wheel_->poll();
    std::vector<slot*> all;
    for (completion_node* node = completed_.take(); node != nullptr; node = node->next) {
      all.push_back(node->owner);
    }
    return all;
  }

  std::vector<plan> plans_ = hand_made_plans({{}});
  manual_device device_;
  wake_signal signal_;
  completion_queue completed_{signal_};
  std::unique_ptr<ring> slots_ = std::make_unique<ring>(device_, 8, size_for(plans_),
                                                        GetParam() != completion_mode::callback, completed_, signal_);
  state_pool states_{device_, plans_, 1};
  std::unique_ptr<wheel> wheel_;
};

}  // namespace penstock::testing

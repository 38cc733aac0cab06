#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "daemon/device/backend.hpp"
#include "tests/daemon/device/device_contract.hpp"
#include "tests/daemon/device/host_gate.hpp"

namespace penstock::testing {
namespace {

/// Streams that work, record and wait for one another, and what each wait promises. What the work leaves is not atomic:
/// if two threads ran one stream at once, or a wait did not order memory, ThreadSanitizer would see it.
class stream_graph {
 public:
  static constexpr std::size_t streams = 8;

  stream_graph(device& on, std::size_t most_work) {
    for (lane& each : lanes_) {
      each.queue = on.open_stream(static_cast<stream_priority>((&each - lanes_.data()) % 3));
      each.point = on.open_event(false);
      each.marks.resize(most_work);
    }
  }

  void work(std::size_t lane_number) {
    lane& on = lanes_[lane_number];
    launch(on, [this, &on, number = on.enqueued++] {
      expect(on.done == number);
      on.marks[number] = 1;
      ++on.done;
    });
  }

  void run_inline(std::size_t lane_number, bool brief) { lanes_[lane_number].queue->run_inline(brief); }

  void record(std::size_t lane_number) {
    lane& on = lanes_[lane_number];
    on.recorded = on.enqueued;
    EXPECT_ENQUEUED(on.queue->record(*on.point));
  }

  /// Waits, and then looks whether the other lane had done all that stands before its last record.
  void wait(std::size_t lane_number, std::size_t for_number) {
    lane& on = lanes_[lane_number];
    lane& other = lanes_[for_number];
    EXPECT_ENQUEUED(on.queue->wait(*other.point));
    launch(on, [this, &other, least = other.recorded] { expect(least == 0 || other.marks[least - 1] == 1); });
  }

  void finish() {
    for (lane& each : lanes_) {
      EXPECT_ENQUEUED(each.queue->synchronize());
      EXPECT_EQ(each.done, each.enqueued);
    }
  }

  [[nodiscard]] int broken() const noexcept { return broken_.load(); }

 private:
  struct lane {
    std::unique_ptr<stream> queue;
    std::unique_ptr<event> point;
    std::size_t enqueued = 0;
    std::size_t recorded = 0;         // work before the last record
    std::size_t done = 0;             // by who does the work, for this lane's own alone
    std::vector<std::uint8_t> marks;  // one for each piece of work, left by who did it
  };

  void expect(bool kept) noexcept { broken_ += kept ? 0 : 1; }

  void launch(lane& on, std::function<void()> what) {
    tasks_.push_back(std::make_unique<host_task>([run = std::move(what)] {
      run();
      return fault{};
    }));
    EXPECT_ENQUEUED(on.queue->launch(*tasks_.back(), {}));
  }

  std::atomic<int> broken_ = 0;
  std::vector<std::unique_ptr<host_task>> tasks_;
  std::array<lane, streams> lanes_;  // last: its streams finish their tasks
};

TEST(host_graph, KeepsWhatEveryWaitPromises) {
  constexpr std::size_t rounds = 300;
  constexpr std::size_t steps = 40;
  const std::unique_ptr<device> target = open_host_device(3);
  stream_graph graph(*target, rounds * steps);
  std::mt19937 random(7);
  for (std::size_t round = 0; round < rounds; ++round) {
    for (std::size_t step = 0; step < steps; ++step) {
      const std::size_t on = random() % stream_graph::streams;
      graph.run_inline(on, random() % 4 == 0);
      switch (random() % 3) {
        case 0:
          graph.record(on);
          break;
        case 1:
          graph.wait(on, random() % stream_graph::streams);
          graph.record(on);
          break;
        default:
          graph.work(on);
      }
    }
    graph.finish();
  }
  EXPECT_EQ(graph.broken(), 0);
}

}  // namespace
}  // namespace penstock::testing

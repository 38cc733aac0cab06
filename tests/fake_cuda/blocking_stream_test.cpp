// The CUDA device's stream for operations that block, by the module that is linked to the fake runtime.
#include <atomic>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "daemon/device/backend.hpp"
#include "daemon/device/device.hpp"

namespace penstock {
namespace {

class task final : public operation {
 public:
  explicit task(std::function<fault()> body) : body_(std::move(body)) {}
  fault run(void* stream, const operation_arguments& /*arguments*/) noexcept override {
    EXPECT_EQ(stream, nullptr);
    return body_();
  }

 private:
  std::function<fault()> body_;
};

/// Holds a stream until it is opened.
class gate {
 public:
  void shut(stream& queue) { EXPECT_FALSE(queue.launch(held_, {})); }
  void await_entered() { entered_.get_future().wait(); }
  void open() { open_.set_value(); }

 private:
  std::promise<void> entered_;
  std::promise<void> open_;
  task held_{[this] {
    entered_.set_value();
    open_.get_future().wait();
    return fault{};
  }};
};

/// The statuses of completions, in their order; "" for none.
struct completion_log {
  std::vector<std::string> statuses;
  std::atomic<std::size_t> count{0};

  static void note(void* log, fault status) noexcept {
    auto& mine = *static_cast<completion_log*>(log);
    mine.statuses.emplace_back(status ? status.name : "");
    ++mine.count;
  }
};

class BlockingStream : public ::testing::Test {
 protected:
  std::unique_ptr<device> device_ = open_cuda_device(0);
  std::unique_ptr<stream> queue_ = device_->open_blocking_stream();
  completion_log log_;
  task works_{[] { return fault{}; }};
  task fails_{[] { return fault{"CUBLAS_STATUS_EXECUTION_FAILED"}; }};
};

TEST_F(BlockingStream, RunsItsWorkInTheOrderOfTheCallsOnAThreadOfItsOwn) {
  const auto caller = std::this_thread::get_id();
  std::vector<int> order;
  std::vector<std::unique_ptr<task>> tasks;
  for (int each = 0; each < 8; ++each) {
    tasks.push_back(std::make_unique<task>([&order, each, caller] {
      EXPECT_NE(std::this_thread::get_id(), caller);
      order.push_back(each);
      return fault{};
    }));
    EXPECT_FALSE(queue_->launch(*tasks.back(), {}));
  }
  EXPECT_FALSE(queue_->synchronize());
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST_F(BlockingStream, OnlyEnqueuesAndNoOtherStreamWaitsForIt) {
  gate held;
  const auto done = device_->open_event(false);
  const auto other = device_->open_stream(stream_priority::normal);
  fault why;
  held.shut(*queue_);
  EXPECT_FALSE(queue_->record(*done));
  EXPECT_FALSE(queue_->on_complete(completion_log::note, &log_));
  held.await_entered();
  EXPECT_FALSE(other->synchronize());
  EXPECT_EQ(done->query(why), event::state::pending);
  EXPECT_EQ(log_.count, 0U);
  held.open();
  EXPECT_FALSE(queue_->synchronize());
  EXPECT_EQ(done->query(why), event::state::reached);
  EXPECT_EQ(log_.count, 1U);
}

TEST_F(BlockingStream, CopiesWithinHostMemory) {
  const device_memory from = device_->allocate_pinned(64);
  const device_memory to = device_->allocate_pinned(64);
  std::memset(from.get(), 7, 64);
  EXPECT_FALSE(queue_->copy_in(to.get(), from.get(), 64));
  EXPECT_FALSE(queue_->synchronize());
  EXPECT_EQ(std::memcmp(to.get(), from.get(), 64), 0);
}

TEST_F(BlockingStream, TellsAFaultWithTheBatchsCompletionAndGoesOn) {
  std::atomic<bool> ran{false};
  task later([&ran] {
    ran = true;
    return fault{};
  });
  EXPECT_FALSE(queue_->launch(fails_, {}));
  EXPECT_FALSE(queue_->launch(later, {}));
  EXPECT_FALSE(queue_->on_complete(completion_log::note, &log_));
  EXPECT_FALSE(queue_->launch(works_, {}));
  EXPECT_FALSE(queue_->on_complete(completion_log::note, &log_));
  EXPECT_FALSE(queue_->synchronize());
  EXPECT_EQ(log_.statuses, (std::vector<std::string>{"CUBLAS_STATUS_EXECUTION_FAILED", ""}));
  EXPECT_FALSE(ran) << "what is behind a fault in its batch is left out";
  EXPECT_FALSE(device_->health());
}

TEST_F(BlockingStream, SynchronizeTellsTheFaultOfAFirstRun) {
  EXPECT_FALSE(queue_->launch(fails_, {}));
  EXPECT_STREQ(queue_->synchronize().name, "CUBLAS_STATUS_EXECUTION_FAILED");
  EXPECT_FALSE(queue_->synchronize());
}

TEST_F(BlockingStream, WaitsForWhatWasEnqueuedWhenItIsClosed) {
  for (int each = 0; each < 3; ++each) {
    EXPECT_FALSE(queue_->launch(works_, {}));
    EXPECT_FALSE(queue_->on_complete(completion_log::note, &log_));
  }
  queue_.reset();
  EXPECT_EQ(log_.count, 3U);
}

TEST_F(BlockingStream, RefusesAnEventToWaitFor) {
  const auto point = device_->open_event(false);
  EXPECT_TRUE(queue_->wait(*point));
}

TEST_F(BlockingStream, TimesItsWork) {
  const auto begin = device_->open_event(true);
  const auto end = device_->open_event(true);
  gate held;
  EXPECT_FALSE(queue_->record(*begin));
  held.shut(*queue_);
  EXPECT_FALSE(queue_->record(*end));
  held.await_entered();
  EXPECT_LT(end->elapsed_us(*begin), 0) << "not there yet";
  held.open();
  EXPECT_FALSE(queue_->synchronize());
  EXPECT_GE(end->elapsed_us(*begin), 0);
}

TEST(BlockingStreamOfTheHost, IsNotThere) {
  EXPECT_THROW(static_cast<void>(open_host_device(1)->open_blocking_stream()), device_error);
}

}  // namespace
}  // namespace penstock

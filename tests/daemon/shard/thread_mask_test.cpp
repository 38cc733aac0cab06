#include "daemon/shard/thread_mask.hpp"

#include <future>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace penstock {
namespace {

using processors = std::vector<int>;

processors of_this_thread() {
  cpu_set_t mask;
  processors found;
  if (::sched_getaffinity(0, sizeof mask, &mask) == 0) {
    for (int each = 0; each < CPU_SETSIZE; ++each) {
      if (CPU_ISSET(static_cast<std::size_t>(each), &mask)) {
        found.push_back(each);
      }
    }
  }
  return found;
}

void bind_this_thread(int processor) {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  CPU_SET(static_cast<std::size_t>(processor), &mask);
  ASSERT_EQ(::sched_setaffinity(0, sizeof mask, &mask), 0);
}

// A thread that is there while masks change, and says where it may run when it is asked.
class bystander {
 public:
  explicit bystander(int bound_to = -1)
      : thread_([this, bound_to] {
          if (bound_to >= 0) {
            bind_this_thread(bound_to);
          }
          is_there_.set_value();
          asked_.get_future().wait();
          found_ = of_this_thread();
        }) {
    is_there_.get_future().wait();
  }
  processors ask() {
    asked_.set_value();
    thread_.join();
    return found_;
  }

 private:
  std::promise<void> is_there_;
  std::promise<void> asked_;
  processors found_;
  std::thread thread_;
};

class ThreadMask : public ::testing::Test {
 protected:
  void SetUp() override {
    if (all_.size() < 2) {
      GTEST_SKIP() << "a process with one processor cannot stay off it";
    }
    first_ = all_.front();
    rest_.assign(all_.begin() + 1, all_.end());
  }

  processors all_ = of_this_thread();
  int first_ = 0;
  processors rest_;
  thread_mask mask_;
};

TEST_F(ThreadMask, KeepsEveryThreadOffAndLetsItBack) {
  bystander while_off;
  bystander afterwards;
  EXPECT_TRUE(mask_.keep_off({first_}, 1));
  EXPECT_EQ(of_this_thread(), rest_);
  EXPECT_EQ(while_off.ask(), rest_);
  bystander started_while_off;
  EXPECT_TRUE(mask_.keep_off({}, 1));
  EXPECT_EQ(of_this_thread(), all_);
  EXPECT_EQ(afterwards.ask(), all_);
  EXPECT_EQ(started_while_off.ask(), all_);
}

TEST_F(ThreadMask, FollowsToAnotherProcessor) {
  EXPECT_TRUE(mask_.keep_off({first_}, 1));
  EXPECT_TRUE(mask_.keep_off({all_.back()}, 1));
  EXPECT_EQ(of_this_thread(), processors(all_.begin(), all_.end() - 1));
  EXPECT_TRUE(mask_.keep_off({}, 1));
}

TEST_F(ThreadMask, LeavesAThreadThatCouldRunNowhere) {
  bystander bound(first_);
  EXPECT_TRUE(mask_.keep_off({first_}, 1));
  EXPECT_EQ(bound.ask(), processors{first_});
  EXPECT_TRUE(mask_.keep_off({}, 1));
}

TEST_F(ThreadMask, DoesNothingWhereTooFewWouldBeLeft) {
  EXPECT_FALSE(mask_.keep_off({first_}, all_.size()));
  EXPECT_EQ(of_this_thread(), all_);
}

}  // namespace
}  // namespace penstock

#include "daemon/admin/interrupt_watch.hpp"

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

namespace penstock {
namespace {

cpu_set_t mask_of_this_thread() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  static_cast<void>(::sched_getaffinity(0, sizeof mask, &mask));
  return mask;
}

// A device whose one interrupt has come `count` times to the first processor that this process may use.
class InterruptWatch : public ::testing::Test {
 protected:
  void SetUp() override {
    if (CPU_COUNT(&all_) < 2) {
      GTEST_SKIP() << "a process with one processor cannot stay off it";
    }
    while (!CPU_ISSET(static_cast<std::size_t>(first_), &all_)) {
      ++first_;
    }
    std::filesystem::create_directories(root_ / "proc");
    std::filesystem::create_directories(root_ / "sys/bus/pci/devices/0000:1b:00.0/msi_irqs/42");
    count(0);
  }
  void TearDown() override {
    std::filesystem::remove_all(root_);
    static_cast<void>(::sched_setaffinity(0, sizeof all_, &all_));
  }
  void count(int interrupts) const {
    std::ofstream(root_ / "proc/interrupts") << "     CPU" << first_ << "\n 42: " << interrupts << " nvidia\n";
  }
  [[nodiscard]] bool may_run_on_first() const {
    const cpu_set_t mask = mask_of_this_thread();
    return CPU_ISSET(static_cast<std::size_t>(first_), &mask);
  }

  cpu_set_t all_ = mask_of_this_thread();
  int first_ = 0;
  std::filesystem::path root_ =
      std::filesystem::temp_directory_path() / ("penstock-watch-" + std::to_string(::getpid()));
  boost::asio::io_context admin_;
};

TEST_F(InterruptWatch, KeepsThreadsOffWhereInterruptsCame) {
  device_interrupts devices({"0000:1b:00.0"}, root_);
  count(32);
  const interrupt_watch watch(admin_, std::move(devices), 1);
  EXPECT_FALSE(may_run_on_first());
}

TEST_F(InterruptWatch, DoesNothingWhereNoneCame) {
  const interrupt_watch watch(admin_, device_interrupts({"0000:1b:00.0"}, root_), 1);
  EXPECT_TRUE(may_run_on_first());
}

TEST_F(InterruptWatch, DoesNothingWhereNoProcessorCanBeSpared) {
  device_interrupts devices({"0000:1b:00.0"}, root_);
  count(32);
  const interrupt_watch watch(admin_, std::move(devices), static_cast<std::size_t>(CPU_COUNT(&all_)));
  EXPECT_TRUE(may_run_on_first());
}

}  // namespace
}  // namespace penstock

#include "daemon/shared_memory/memory_watch.hpp"

#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/shared_memory/sealed_memory.hpp"

namespace penstock {
namespace {

/// Memory of which another has a descriptor, and the daemon no longer its own.
class MemoryWatch : public ::testing::Test {
 protected:
  void SetUp() override {
    others_ = memory_watch::open_again(memory_.descriptor());
    ASSERT_GE(others_, 0);
    memory_.close_descriptor();
  }
  void close() { ::close(others_); }

  sealed_memory memory_{8192};
  memory_watch watch_{memory_.descriptor()};
  int others_ = -1;
};

TEST_F(MemoryWatch, SeesADescriptorUntilItIsClosed) {
  EXPECT_TRUE(watch_.sees_anybody());
  close();
  EXPECT_FALSE(watch_.sees_anybody()) << "the daemon's own mapping does not count";
}

TEST_F(MemoryWatch, SeesAMappingThatNobodyCanWriteThroughUntilItHasGone) {
  void* const mapped = ::mmap(nullptr, memory_.bytes(), PROT_READ, MAP_SHARED, others_, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  close();
  EXPECT_TRUE(watch_.sees_anybody());
  ::munmap(mapped, memory_.bytes());
  EXPECT_FALSE(watch_.sees_anybody());
}

TEST_F(MemoryWatch, SeesWhatWasOpenedFromAnothersDescriptor) {
  const int again = ::open(("/proc/self/fd/" + std::to_string(others_)).c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(again, 0);
  close();
  EXPECT_TRUE(watch_.sees_anybody());
  ::close(again);
  EXPECT_FALSE(watch_.sees_anybody());
}

TEST(MemoryWatchOfNothing, SeesNobody) {
  EXPECT_FALSE(memory_watch(-1).sees_anybody());
}

}  // namespace
}  // namespace penstock

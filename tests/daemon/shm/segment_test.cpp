#include "daemon/shm/segment.hpp"

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/daemon/shm/pinning_device.hpp"

namespace penstock {
namespace {

TEST(SealedMemory, IsWholePagesOfZeros) {
  const sealed_memory made(5000);
  EXPECT_EQ(made.bytes(), 8192U);
  EXPECT_TRUE(
      std::all_of(made.data(), made.data() + made.bytes(), [](std::byte each) { return each == std::byte{0}; }));
}

TEST(SealedMemory, HasAllItsPagesFromTheStart) {
  const sealed_memory made(std::size_t{1} << 20U);
  struct stat there {};
  ASSERT_EQ(::fstat(made.descriptor(), &there), 0);
  EXPECT_EQ(static_cast<std::size_t>(there.st_blocks) * 512, made.bytes());
}

TEST(SealedMemory, IsTheSameForWhoeverMapsItsDescriptor) {
  const sealed_memory made(4096);
  void* const other = ::mmap(nullptr, made.bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, made.descriptor(), 0);
  ASSERT_NE(other, MAP_FAILED);
  static_cast<std::byte*>(other)[4095] = std::byte{42};
  EXPECT_EQ(made.data()[4095], std::byte{42});
  ::munmap(other, made.bytes());
}

TEST(SealedMemory, CanNeitherShrinkNorGrowNorBeUnsealed) {
  const sealed_memory made(8192);
  for (const off_t size : {off_t{0}, off_t{4096}, off_t{12288}}) {
    EXPECT_EQ(::ftruncate(made.descriptor(), size), -1);
    EXPECT_EQ(errno, EPERM);
  }
  EXPECT_EQ(::fcntl(made.descriptor(), F_ADD_SEALS, F_SEAL_WRITE), -1);
}

TEST(SealedMemory, CanNeverBeRun) {
  constexpr unsigned no_exec_seal = 0x0008U;
  if (!file_descriptor{::memfd_create("known", MFD_CLOEXEC | no_exec_seal)}) {
    GTEST_SKIP() << "this kernel does not know MFD_NOEXEC_SEAL";
  }
  const sealed_memory made(4096);
  struct stat there {};
  ASSERT_EQ(::fstat(made.descriptor(), &there), 0);
  EXPECT_EQ(there.st_mode & 0111U, 0U);
  EXPECT_EQ(::fchmod(made.descriptor(), 0700), -1);
}

TEST(SealedMemory, ThrowsForMoreThanThereIs) {
  EXPECT_THROW(sealed_memory(std::size_t{1} << 50U), std::system_error);
}

/// Memory of which another has a descriptor, and the daemon no longer its own.
class MemoryWatch : public ::testing::Test {
 protected:
  void SetUp() override {
    others_ = memory_watch::open_again(memory_.descriptor());
    ASSERT_TRUE(others_);
    memory_.close_descriptor();
  }

  sealed_memory memory_{8192};
  memory_watch watch_{memory_.descriptor()};
  file_descriptor others_;
};

TEST_F(MemoryWatch, SeesADescriptorUntilItIsClosed) {
  EXPECT_TRUE(watch_.sees_anybody());
  others_.close();
  EXPECT_FALSE(watch_.sees_anybody()) << "the daemon's own mapping does not count";
}

TEST_F(MemoryWatch, SeesAMappingThatNobodyCanWriteThroughUntilItHasGone) {
  void* const mapped = ::mmap(nullptr, memory_.bytes(), PROT_READ, MAP_SHARED, others_.number(), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  others_.close();
  EXPECT_TRUE(watch_.sees_anybody());
  ::munmap(mapped, memory_.bytes());
  EXPECT_FALSE(watch_.sees_anybody());
}

TEST_F(MemoryWatch, SeesWhatWasOpenedFromAnothersDescriptor) {
  file_descriptor again{::open(("/proc/self/fd/" + std::to_string(others_.number())).c_str(), O_RDONLY | O_CLOEXEC)};
  ASSERT_TRUE(again);
  others_.close();
  EXPECT_TRUE(watch_.sees_anybody());
  again.close();
  EXPECT_FALSE(watch_.sees_anybody());
}

TEST(MemoryWatchOfNothing, SeesNobody) {
  EXPECT_FALSE(memory_watch(-1).sees_anybody());
}

class last_owner : public arena_owner {
 public:
  void take_back(client_arena& /*unused*/) noexcept override { ++taken_back; }
  int taken_back = 0;
};

TEST(ClientArena, IsPinnedAsLongAsItIsThere) {
  testing::pinning_device device;
  last_owner owner;
  {
    const client_arena arena(7, 4096, device, owner);
    EXPECT_EQ(arena.number(), 7U);
    EXPECT_EQ(device.pinned_bytes(), 4096U);
  }
  EXPECT_EQ(device.pinned_bytes(), 0U);
}

TEST(ClientArena, GoesBackWithItsLastUse) {
  testing::pinning_device device;
  last_owner owner;
  client_arena arena(7, 4096, device, owner);
  arena.use();
  arena.use();
  arena.drop();
  arena.drop();
  EXPECT_EQ(owner.taken_back, 0);
  arena.drop();
  EXPECT_EQ(owner.taken_back, 1);
}

TEST(ClientArena, ContainsWhatLiesInsideAndNothingElse) {
  testing::pinning_device device;
  last_owner owner;
  const client_arena arena(7, 4096, device, owner);
  EXPECT_TRUE(arena.contains(0, 4096));
  EXPECT_TRUE(arena.contains(4096, 0));
  EXPECT_TRUE(arena.contains(4095, 1));
  EXPECT_FALSE(arena.contains(4095, 2));
  EXPECT_FALSE(arena.contains(4097, 0));
  EXPECT_FALSE(arena.contains(0, 4097));
  EXPECT_FALSE(arena.contains(UINT64_MAX, 2));
  EXPECT_FALSE(arena.contains(2, UINT64_MAX));
}

}  // namespace
}  // namespace penstock

#include "daemon/shared_memory/sealed_memory.hpp"

#include <algorithm>
#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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
  const int known = ::memfd_create("known", MFD_CLOEXEC | no_exec_seal);
  if (known < 0) {
    GTEST_SKIP() << "this kernel does not know MFD_NOEXEC_SEAL";
  }
  ::close(known);
  const sealed_memory made(4096);
  struct stat there {};
  ASSERT_EQ(::fstat(made.descriptor(), &there), 0);
  EXPECT_EQ(there.st_mode & 0111U, 0U);
  EXPECT_EQ(::fchmod(made.descriptor(), 0700), -1);
}

TEST(SealedMemory, ThrowsForMoreThanThereIs) {
  EXPECT_THROW(sealed_memory(std::size_t{1} << 50U), std::system_error);
}

}  // namespace
}  // namespace penstock

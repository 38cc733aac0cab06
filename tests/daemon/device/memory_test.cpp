#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "tests/daemon/device/device_contract.hpp"

namespace penstock::testing {
namespace {

using memory_contract = device_contract;

TEST_P(memory_contract, IsAlignedAndZeroed) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{100}, std::size_t{256}, std::size_t{4097},
                                  std::size_t{2} << 20U, (std::size_t{5} << 20U) + 1}) {
    for (int round = 0; round < 3; ++round) {
      const device_memory pinned = target().allocate_pinned(bytes);
      const device_memory memory = target().allocate(bytes);
      const device_memory copy = target().allocate_pinned(bytes);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pinned.get()) % 256, 0U);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.get()) % 256, 0U);
      EXPECT_EQ(std::vector<std::byte>(pinned.get(), pinned.get() + bytes), std::vector<std::byte>(bytes));
      const auto queue = open_stream();
      std::fill_n(copy.get(), bytes, std::byte{1});
      EXPECT_ENQUEUED(queue->copy_out(copy.get(), memory.get(), bytes));
      EXPECT_ENQUEUED(queue->synchronize());
      EXPECT_EQ(std::vector<std::byte>(copy.get(), copy.get() + bytes), std::vector<std::byte>(bytes));
      std::fill_n(pinned.get(), bytes, std::byte{0xFF});  // so that memory that is given out again is not zero by luck
      EXPECT_ENQUEUED(queue->copy_in(memory.get(), pinned.get(), bytes));
      EXPECT_ENQUEUED(queue->synchronize());
    }
  }
}

TEST_P(memory_contract, IsCountedUntilItIsGivenBack) {
  const memory_use before = target().in_use();
  const device_memory pinned = target().allocate_pinned(1000);
  device_memory memory = target().allocate(300);
  const device_memory more = target().allocate(70);
  EXPECT_EQ(target().in_use().pinned - before.pinned, 1000U);
  EXPECT_EQ(target().in_use().device - before.device, 370U);
  memory.reset();
  EXPECT_EQ(target().in_use().pinned - before.pinned, 1000U);
  EXPECT_EQ(target().in_use().device - before.device, 70U);
  EXPECT_THROW((void)target().allocate(std::size_t{1} << 60U), device_error);
  EXPECT_EQ(target().in_use().device - before.device, 70U);
}

TEST_P(memory_contract, ThatIsTooLargeIsAnError) {
  EXPECT_THROW((void)target().allocate(std::size_t{1} << 60U), device_error);
  EXPECT_THROW((void)target().allocate_pinned(std::size_t{1} << 60U), device_error);
  const auto queue = open_stream();
  make_a_round_trip(*queue);
}

TEST_P(memory_contract, StandsOnADeviceThatSaysWhatItIs) {
  EXPECT_EQ(target().facts().backend, GetParam());
  EXPECT_NE(target().facts().name, "");
  EXPECT_NE(target().facts().detail, "");
  EXPECT_GT(target().facts().memory_bytes, std::size_t{64} << 20U);
  EXPECT_STREQ(target().health().name, nullptr);
}

INSTANTIATE_TEST_SUITE_P(backend, memory_contract, ::testing::Values("host", "cuda"), name_of_backend);

}  // namespace
}  // namespace penstock::testing

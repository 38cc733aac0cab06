#include <string>

#include <gmock/gmock.h>

#include "daemon/code/compiler.hpp"
#include "tests/daemon/code/made_up_cubin.hpp"

namespace penstock {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Cubin, SaysWhatItsKernelsUse) {
  const std::string file =
      testing::made_up_cubin(80).add({"agc", {8, 8, 4}, 24, 0, 0}).add({"tile", {8, 40}, 64, 128, 4096}).text();
  EXPECT_EQ(architecture_of(file), "sm_80");
  const std::vector<kernel_usage> kernels = usage_of(file);
  ASSERT_EQ(kernels.size(), 2U);
  EXPECT_EQ(kernels[0].symbol, "agc");
  EXPECT_THAT(kernels[0].parameters, ElementsAre(8, 8, 4));
  EXPECT_EQ(kernels[0].registers, 24);
  EXPECT_EQ(kernels[0].shared, 0U);
  EXPECT_EQ(kernels[1].symbol, "tile");
  EXPECT_THAT(kernels[1].parameters, ElementsAre(8, 40));
  EXPECT_EQ(kernels[1].registers, 64);
  EXPECT_EQ(kernels[1].stack, 128U);
  EXPECT_EQ(kernels[1].shared, 4096U);
}

TEST(Cubin, CountsOnlyTheUsersSharedMemoryFromHopperOn) {
  EXPECT_EQ(usage_of(testing::made_up_cubin(90).add({"tile", {8}, 8, 0, 1024 + 256}).text()).at(0).shared, 256U);
}

TEST(Cubin, MayHaveNoKernel) {
  EXPECT_THAT(usage_of(testing::made_up_cubin().text()), IsEmpty());
}

TEST(Cubin, IsRefusedIfItIsNone) {
  EXPECT_THROW((void)usage_of("no machine code at all, though it is longer than a header of an ELF file"), code_error);
  EXPECT_THROW((void)usage_of(""), code_error);
  EXPECT_THROW((void)architecture_of("\x7f"
                                     "ELF"),
               code_error);
}

TEST(Cubin, IsNeverReadBeyondItsEnd) {
  const std::string file = testing::made_up_cubin(90).add({"agc", {8, 8, 4}, 24, 0, 2048}).text();
  for (std::size_t size = 0; size < file.size(); ++size) {
    EXPECT_THROW((void)usage_of(std::string(file, 0, size)), code_error) << size;
  }
  for (std::size_t at = 0; at < file.size(); ++at) {
    for (const char wrong : {'\xff', '\x7f', '\0'}) {
      std::string changed = file;
      changed[at] = wrong;
      try {
        (void)usage_of(changed);
      } catch (const code_error&) {
      }
    }
  }
}

}  // namespace
}  // namespace penstock

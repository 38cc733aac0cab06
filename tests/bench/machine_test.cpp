// What stands beside a figure is read from this machine and this build.

#include "tests/bench/machine.hpp"

#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::bench {
namespace {

// As the kernel gives it, in KiB.
double total_memory_gib() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  double kib = 0;
  file >> name >> kib;
  EXPECT_EQ(name, "MemTotal:");
  return kib / (1 << 20U);
}

TEST(MachineFacts, SayHowMuchMemoryThereIs) {
  EXPECT_NEAR(machine_facts().at("memory_gib").get<double>(), total_memory_gib(), 0.051);
}

TEST(MachineFacts, SayWhichCommitWasBuilt) {
  EXPECT_THAT(machine_facts().at("commit").get<std::string>(),
              ::testing::MatchesRegex("unknown|[0-9a-f]{10,40}(-dirty)?"));
}

TEST(MachineFacts, NameADriverOnlyWhereOneIsLoaded) {
  EXPECT_EQ(machine_facts().contains("nvidia_driver"), std::ifstream("/sys/module/nvidia/version").good());
}

}  // namespace
}  // namespace penstock::bench

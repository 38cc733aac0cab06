#include "daemon/service/shard_thread.hpp"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "daemon/service/start.hpp"

namespace penstock {
namespace {

// Two packages, each with a memory and a GPU of its own.
std::string machine() {
  std::string text = R"(<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
<object type="Machine" os_index="0" cpuset="0x3" complete_cpuset="0x3" allowed_cpuset="0x3" nodeset="0x3"
 complete_nodeset="0x3" allowed_nodeset="0x3" gp_index="1">
)";
  int index = 1;
  for (const int package : {0, 1}) {
    const std::string sets = fmt::format(
        R"(cpuset="{0:#x}" complete_cpuset="{0:#x}" nodeset="{0:#x}" complete_nodeset="{0:#x}")", 1 << package);
    const auto object = [&](const char* type) {
      return fmt::format(R"(<object type="{}" os_index="{}" {} gp_index="{}">)", type, package, sets, ++index);
    };
    text += object("Package") + object("NUMANode") + "</object>" + object("Core") + object("PU") + "</object></object>";
    text += fmt::format(R"(<object type="Bridge" gp_index="{}" bridge_type="0-1" depth="0" bridge_pci="0000:[{}]">)"
                        R"(<object type="PCIDev" gp_index="{}" pci_busid="0000:{}:00.0")"
                        R"( pci_type="0302 [10de:2335] [10de:18be] a1" pci_link_speed="0"/></object></object>)",
                        index + 1, package == 0 ? "10-1f" : "90-9f", index + 2, package == 0 ? "1b" : "9b");
    index += 2;
  }
  return text + "</object></topology>";
}

// hwloc reads the machine from a file, and so binds nothing.
class Placement : public ::testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(file_) << machine();
    ::setenv(variable, file_.c_str(), 1);
  }
  void TearDown() override {
    ::unsetenv(variable);
    std::remove(file_.c_str());
  }

  static constexpr const char* variable = "HWLOC_XMLFILE";
  const std::string file_ = ::testing::TempDir() + "two_memories." + std::to_string(::getpid()) + ".xml";
};

TEST_F(Placement, StaysNearTheDevice) {
  EXPECT_EQ(stay_near("0000:1b:00.0"), "near 0000:1b:00.0, NUMA node 0");
  EXPECT_EQ(stay_near("0000:9b:00.0"), "near 0000:9b:00.0, NUMA node 1");
}

TEST_F(Placement, ChangesNothingForADeviceThatTheMachineDoesNotTellOf) {
  EXPECT_EQ(stay_near("0000:ff:00.0"), "");
  EXPECT_EQ(stay_near("nonsense"), "");
}

TEST_F(Placement, ChangesNothingForTheHostBackend) {
  EXPECT_EQ(stay_near(""), "");
}

TEST(StartProgress, SlowestStepIsTheOneThatBeganFirst) {
  start_progress progress;
  EXPECT_FALSE(progress.slowest());
  {
    const start_progress::step first(progress, 1, "pipeline 'a' is compiled");
    while (progress.slowest()->time == std::chrono::steady_clock::duration::zero()) {
      std::this_thread::yield();
    }
    const start_progress::step second(progress, 0, "pipeline 'b' is compiled");
    EXPECT_EQ(progress.slowest()->text, "shard 1: pipeline 'a' is compiled");
  }
  EXPECT_FALSE(progress.slowest());
}

}  // namespace

}  // namespace penstock

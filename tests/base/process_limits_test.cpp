#include "base/process_limits.hpp"

#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.hpp"

namespace penstock {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t mebibyte = std::size_t{1} << 20U;

/// A machine of 8 processors and 16 GiB, 12 of them available, as files in a folder of its own.
class MachineShare : public ::testing::Test {
 protected:
  MachineShare() {
    write("proc/meminfo", "MemTotal:       16777216 kB\nMemFree:         1048576 kB\nMemAvailable:   12582912 kB\n");
  }

  void write(const std::string& file, const std::string& text) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  void mount_second(const std::string& from = "/") {
    write("proc/self/mountinfo", "24 30 0:22 / /proc rw - proc proc rw\n35 24 0:30 " + from +
                                     " /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n");
  }
  void mount_first(const std::string& from = "/") {
    write("proc/self/mountinfo", "33 30 0:28 " + from +
                                     " /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n" + "34 30 0:29 " +
                                     from + " /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  }
  [[nodiscard]] machine_share read(std::size_t affinity = 8) const { return read_machine_share(root_, affinity); }

  testing::temporary_folder folder_;
  const fs::path root_ = folder_.path();
};

TEST_F(MachineShare, WithoutGroupsItIsTheMachineByAffinity) {
  const machine_share share = read(3);
  EXPECT_EQ(share.processors, 3U);
  EXPECT_EQ(share.memory_bytes, 16384 * mebibyte);
  EXPECT_EQ(share.available_bytes, 12288 * mebibyte);
}

TEST_F(MachineShare, SmallestLimitOfNestedGroupsCounts) {
  mount_second();
  write("proc/self/cgroup", "0::/system.slice/penstockd.service\n");
  write("sys/fs/cgroup/system.slice/cpu.max", "150000 100000\n");
  write("sys/fs/cgroup/system.slice/memory.max", "max\n");
  write("sys/fs/cgroup/system.slice/penstockd.service/cpu.max", "400000 100000\n");
  write("sys/fs/cgroup/system.slice/penstockd.service/memory.max", "2147483648\n");
  write("sys/fs/cgroup/system.slice/penstockd.service/memory.current", "1073741824\n");
  write("sys/fs/cgroup/system.slice/penstockd.service/memory.stat", "anon 5\ninactive_file 536870912\n");
  const machine_share share = read();
  EXPECT_EQ(share.processors, 2U);
  EXPECT_EQ(share.memory_bytes, 2048 * mebibyte);
  EXPECT_EQ(share.available_bytes, 1536 * mebibyte);
}

TEST_F(MachineShare, LimitsOfOtherGroupsDoNotCount) {
  mount_second();
  write("proc/self/cgroup", "0::/mine\n");
  write("sys/fs/cgroup/mine/cpu.max", "max 100000\n");
  write("sys/fs/cgroup/mine/inner/cpu.max", "100000 100000\n");
  write("sys/fs/cgroup/other/memory.max", "4096\n");
  EXPECT_EQ(read().processors, 8U);
  EXPECT_EQ(read().memory_bytes, 16384 * mebibyte);
}

TEST_F(MachineShare, ContainerWithItsOwnNamespaceIsLimitedByItsRoot) {
  mount_second();
  write("proc/self/cgroup", "0::/\n");
  write("sys/fs/cgroup/cpu.max", "50000 100000\n");
  write("sys/fs/cgroup/memory.max", "1073741824\n");
  EXPECT_EQ(read().processors, 1U);
  EXPECT_EQ(read().memory_bytes, 1024 * mebibyte);
}

TEST_F(MachineShare, FirstVersionIsReadToo) {
  mount_first();
  write("proc/self/cgroup", "5:cpu,cpuacct:/user/job\n4:memory:/user/job\n1:name=systemd:/elsewhere\n0::/elsewhere\n");
  write("sys/fs/cgroup/cpu,cpuacct/user/cpu.cfs_quota_us", "300000\n");
  write("sys/fs/cgroup/cpu,cpuacct/user/cpu.cfs_period_us", "100000\n");
  write("sys/fs/cgroup/cpu,cpuacct/user/job/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu,cpuacct/user/job/cpu.cfs_period_us", "100000\n");
  write("sys/fs/cgroup/memory/user/memory.limit_in_bytes", "1073741824\n");
  write("sys/fs/cgroup/memory/user/memory.usage_in_bytes", "268435456\n");
  write("sys/fs/cgroup/memory/user/job/memory.limit_in_bytes", "9223372036854771712\n");
  const machine_share share = read();
  EXPECT_EQ(share.processors, 3U);
  EXPECT_EQ(share.memory_bytes, 1024 * mebibyte);
  EXPECT_EQ(share.available_bytes, 768 * mebibyte);
}

TEST_F(MachineShare, FirstVersionInAContainerIsMountedFromItsGroup) {
  mount_first("/docker/abc");
  write("proc/self/cgroup", "5:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "100000\n");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/memory/memory.stat", "cache 1\nhierarchical_memory_limit 536870912\n");
  EXPECT_EQ(read().processors, 1U);
  EXPECT_EQ(read().memory_bytes, 512 * mebibyte);
}

TEST_F(MachineShare, GroupOutsideOfTheMountIsShownByItsTop) {
  mount_second("/kubepods/pod");
  write("proc/self/cgroup", "0::/../../other\n");
  write("sys/fs/cgroup/cpu.max", "200000 100000\n");
  EXPECT_EQ(read().processors, 2U);
}

TEST_F(MachineShare, GarbageSetsNoLimit) {
  mount_second();
  write("proc/self/cgroup", "nonsense\n0:\n0::/a\n");
  write("sys/fs/cgroup/a/cpu.max", "-5 0\n");
  write("sys/fs/cgroup/a/memory.max", "\n");
  EXPECT_EQ(read().processors, 8U);
  EXPECT_EQ(read().memory_bytes, 16384 * mebibyte);
}

TEST(MachineShareHere, IsRead) {
  const machine_share share = read_machine_share();
  EXPECT_GE(share.processors, 1U);
  EXPECT_GT(share.memory_bytes, 0U);
  EXPECT_GT(share.available_bytes, 0U);
}

}  // namespace
}  // namespace penstock

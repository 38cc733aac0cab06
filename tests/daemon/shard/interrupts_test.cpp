#include "daemon/shard/interrupts.hpp"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

namespace penstock {
namespace {

using processors = std::vector<int>;

// A kernel's files: the device 0000:1b:00.0 has interrupts 42 and 44, processors 0, 2 and 3 are there.
class kernel_files {
 public:
  kernel_files() {
    for (const char* const number : {"42", "44"}) {
      const std::filesystem::path folder = root() / "sys/bus/pci/devices/0000:1b:00.0/msi_irqs";
      std::filesystem::create_directories(folder);
      std::ofstream(folder / number) << "msix\n";
    }
    std::filesystem::create_directories(root() / "proc");
  }
  ~kernel_files() { std::filesystem::remove_all(root()); }
  kernel_files(const kernel_files&) = delete;
  kernel_files& operator=(const kernel_files&) = delete;

  // What 42 and 44 have counted on each processor.
  void write(const std::vector<int>& first, const std::vector<int>& second) const {
    std::ofstream file(root() / "proc/interrupts");
    file << "           CPU0       CPU2       CPU3\n";
    file << "  4:   900000     900000     900000  IO-APIC   4-edge      ttyS0\n";
    line(file, 42, first);
    file << " 43:     7000          0          0  PCI-MSIX-0000:1c:00.0   0-edge      eth0\n";
    line(file, 44, second);
    file << "NMI:        0          0          0   Non-maskable interrupts\nERR:          0\n";
  }
  [[nodiscard]] std::filesystem::path root() const { return root_; }

 private:
  static void line(std::ofstream& file, int number, const std::vector<int>& counts) {
    file << " " << number << ":";
    for (const int each : counts) {
      file << "     " << each;
    }
    file << "  PCI-MSIX-0000:1b:00.0   0-edge      nvidia\n";
  }

  std::filesystem::path root_ =
      std::filesystem::temp_directory_path() / ("penstock-interrupts-" + std::to_string(::getpid()));
};

TEST(DeviceInterrupts, AreWhereTheyCameSinceTheLastLook) {
  const kernel_files kernel;
  kernel.write({13, 0, 0}, {0, 0, 5000});
  device_interrupts interrupts({"0000:1B:00.0"}, kernel.root());
  EXPECT_EQ(interrupts.look(), processors{});
  kernel.write({13, 40, 0}, {0, 0, 5000});
  EXPECT_EQ(interrupts.look(), processors{2});
  kernel.write({13, 40, 0}, {0, 0, 5009});
  EXPECT_EQ(interrupts.look(), processors{3});
}

TEST(DeviceInterrupts, StayWhereTheyWereWhileNoneCome) {
  const kernel_files kernel;
  kernel.write({0, 0, 0}, {0, 0, 0});
  device_interrupts interrupts({"0000:1b:00.0"}, kernel.root());
  kernel.write({0, 0, 8}, {0, 0, 0});
  EXPECT_EQ(interrupts.look(), processors{3});
  EXPECT_EQ(interrupts.look(), processors{3});
}

TEST(DeviceInterrupts, CountFromAnEighthOfThem) {
  const kernel_files kernel;
  kernel.write({0, 0, 0}, {0, 0, 0});
  device_interrupts interrupts({"0000:1b:00.0"}, kernel.root());
  kernel.write({100, 20, 0}, {0, 0, 17});
  EXPECT_EQ(interrupts.look(), (processors{0, 2}));
}

TEST(DeviceInterrupts, AreNowhereWithoutADevice) {
  const kernel_files kernel;
  kernel.write({0, 0, 0}, {0, 0, 0});
  device_interrupts none({""}, kernel.root());
  device_interrupts unknown({"0000:99:00.0"}, kernel.root());
  device_interrupts hidden({"0000:1b:00.0"}, kernel.root() / "nothing");
  kernel.write({50, 0, 0}, {0, 0, 0});
  EXPECT_EQ(none.look(), processors{});
  EXPECT_EQ(unknown.look(), processors{});
  EXPECT_EQ(hidden.look(), processors{});
}

}  // namespace
}  // namespace penstock

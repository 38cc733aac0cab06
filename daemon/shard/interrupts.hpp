#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "daemon/device/device.hpp"

namespace penstock {

/// Which processors take the interrupts of PCI devices, as /proc/interrupts counts them. One thread uses it.
class device_interrupts {
 public:
  /// Counts from now on. Devices by their place on the bus, "0000:1b:00.0"; what is unknown counts for nothing, and ""
  /// stands for a device that is none. `root`: where proc and sys are.
  explicit device_interrupts(const std::vector<std::string>& pci_bus_ids, std::filesystem::path root = "/");

  /// The processors, by number, that took an eighth or more of what came since the last look (the first: since the
  /// constructor); those of the look before when nothing came. Empty also where the kernel doesn't tell.
  [[nodiscard]] std::vector<int> look();

 private:
  using counts = std::map<int, std::uint64_t>;  // by processor

  [[nodiscard]] counts read() const;

  std::filesystem::path root_;
  std::vector<std::string> lines_;  // interrupts' numbers, as their lines begin: "42:"
  counts before_;
  std::vector<int> found_;
};

/// Has the device finish a few pieces of work, one after the other, each with a completion: on a GPU each makes an
/// interrupt. Start-up only. Throws device_error when there is no memory or stream for it.
void provoke_interrupts(device& on);

}  // namespace penstock

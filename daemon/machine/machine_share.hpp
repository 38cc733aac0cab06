#pragma once

#include <cstddef>
#include <filesystem>

namespace penstock {

/// What this process may use of the machine: the one source of these figures for the daemon and the doctor.
///
/// Control groups count, of version 1 and 2: the process's own and all above it, as far as they are mounted here.
struct machine_share {
  std::size_t processors = 1;       ///< by affinity, and by the smallest CPU quota, rounded up
  std::size_t memory_bytes = 0;     ///< the machine's, or the smallest limit of a group
  std::size_t available_bytes = 0;  ///< of it, what could still be allocated without swapping
};

/// As the kernel shows it now. What can't be read sets no limit.
[[nodiscard]] machine_share read_machine_share();
/// The same of the files /proc and /sys/fs/cgroup below `root`, where so many processors are in the affinity mask.
[[nodiscard]] machine_share read_machine_share(const std::filesystem::path& root, std::size_t affinity);

}  // namespace penstock

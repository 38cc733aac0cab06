#pragma once

#include <cstddef>

#include <sys/types.h>

namespace penstock::bench {

/// What a process takes of the machine just now, as the kernel counts it; all 0 when there is no such process.
struct process_usage {
  std::size_t resident_bytes = 0;  ///< in memory
  std::size_t open_files = 0;
};
[[nodiscard]] process_usage usage_of(pid_t process);

}  // namespace penstock::bench

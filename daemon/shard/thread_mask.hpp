#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include <sched.h>
#include <sys/types.h>

namespace penstock {

/// Keeps the threads of this process off processors that have something else to do: all of them, those that libraries
/// have started too. One thread uses it.
class thread_mask {
 public:
  /// Threads may run where the calling one may now, or on fewer processors.
  thread_mask() noexcept;

  /// No thread runs on these from now on, nor does one that such a thread starts; where an earlier call kept threads
  /// off and this one doesn't, they may run again. A thread that could then run nowhere stays as it is. Does nothing,
  /// and returns false, when fewer than `least` processors would be left.
  bool keep_off(const std::vector<int>& processors, std::size_t least);

 private:
  cpu_set_t all_{};
  cpu_set_t off_{};                    // now
  std::map<pid_t, cpu_set_t> before_;  // where a thread might run before it was kept off
};

}  // namespace penstock

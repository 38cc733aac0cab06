#pragma once

#include <functional>

#include <sys/types.h>

namespace penstock::bench {

/// A function in a process of its own, forked from this one. It ends with the object, or when whoever made it ends.
/// Make it before anything that a fork breaks, such as CUDA.
class own_process {
 public:
  /// What `serve` throws ends the process.
  explicit own_process(const std::function<void()>& serve);
  ~own_process();
  own_process(const own_process&) = delete;
  own_process& operator=(const own_process&) = delete;

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }

 private:
  pid_t pid_;
};

}  // namespace penstock::bench

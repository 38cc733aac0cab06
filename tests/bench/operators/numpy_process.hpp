#pragma once

#include <string>

#include <nlohmann/json.hpp>
#include <sys/types.h>

namespace penstock::bench {

/// numpy and scipy in a process of their own, limited to one thread, which times one thing when it is asked: see
/// numpy_worker.py. Thread: the one that made it.
class numpy_process {
 public:
  /// Throws std::runtime_error when it can't be started.
  numpy_process();
  numpy_process(const numpy_process&) = delete;
  numpy_process& operator=(const numpy_process&) = delete;
  ~numpy_process();

  /// Sends a line and waits for its answer. Throws std::runtime_error when the process has ended instead.
  [[nodiscard]] nlohmann::ordered_json ask(const nlohmann::ordered_json& what);

 private:
  [[nodiscard]] std::string read_line();

  pid_t child_ = -1;
  int to_ = -1;
  int from_ = -1;
  std::string unread_;
};

}  // namespace penstock::bench

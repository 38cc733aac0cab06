#pragma once

#include <string>
#include <vector>

namespace penstock::cli {

/// The standard output and the exit code of a finished program.
struct child_output {
  int exit_code = 0;  ///< 128 + signal number if a signal ended it
  std::string text;
};

/// Runs a program to its end, with this process's standard error. A name without '/' is looked up in PATH. Throws
/// std::system_error when it can't be started.
[[nodiscard]] child_output output_of(const std::vector<std::string>& command);

}  // namespace penstock::cli

#pragma once

#include <string>
#include <vector>

namespace penstock::cli {

/// What a program wrote to its standard output, and how it ended.
struct child_output {
  int exit_code = 0;  ///< 128 + the signal's number where one ended it
  std::string text;
};

/// Runs the program to its end; its standard error is this one's. Looked for in PATH where it has no '/'. Throws
/// std::system_error when it can't be started.
[[nodiscard]] child_output output_of(const std::vector<std::string>& command);

}  // namespace penstock::cli

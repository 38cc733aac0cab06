#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "client/cli/admin_http.hpp"

namespace penstock::bench {

/// One thing that a daemon's admin endpoint is asked again and again, each time over a connection of its own.
class admin_questions {
 public:
  /// `listen`: "127.0.0.1:7680".
  admin_questions(const std::string& listen, std::string target);

  /// Asks once. Throws std::runtime_error when the answer is not 200. Thread: one at a time.
  void ask();

  /// How long each answer took, in milliseconds, and how long the last one was.
  [[nodiscard]] const std::vector<double>& took_ms() const noexcept { return took_ms_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  cli::admin_address at_;
  std::string target_;
  std::vector<double> took_ms_;
  std::size_t bytes_ = 0;
};

}  // namespace penstock::bench

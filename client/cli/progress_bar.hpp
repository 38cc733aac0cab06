#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>

#include "client/cli/terminal.hpp"

namespace penstock::cli {

/// Where a stream of frames stands.
struct progress {
  std::uint64_t frames = 0;
  std::uint64_t bytes = 0;
  std::uint64_t in_flight = 0;
  std::chrono::nanoseconds elapsed{};
};

/// One line that says how far things are, drawn over itself; nothing at all where nobody looks. One thread at a time.
class progress_bar {
 public:
  /// `total_bytes` is unset for a stream without a known end.
  progress_bar(std::ostream& out, const terminal& where, std::optional<std::uint64_t> total_bytes);

  /// Draws, at most ten times a second.
  void show(const progress& now);
  /// Leaves the line clean.
  void clear();

  /// The line itself, at most as wide as the terminal.
  [[nodiscard]] std::string line(const progress& now) const;

 private:
  std::ostream& out_;
  terminal where_;
  std::optional<std::uint64_t> total_bytes_;
  std::chrono::nanoseconds last_{-1};
};

}  // namespace penstock::cli

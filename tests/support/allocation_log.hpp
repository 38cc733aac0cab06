#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace penstock::testing {

/// One place from which memory was asked for, and how often.
struct allocation_place {
  std::string library;  ///< whose code asked: the innermost frame outside the C and C++ libraries
  std::string caller;   ///< that frame: a symbol, or an offset for addr2line
  std::string entry;    ///< where our code called into that library, when it is not our own
  std::uint64_t count = 0;
};

/// Counts what every thread of this program asks of malloc and its like while it is watched. It replaces them: link it
/// into a test of its own, and into none that a sanitizer watches.
class allocation_log {
 public:
  /// The calling thread is left out from now on.
  static void exempt_this_thread() noexcept;
  static void begin();
  static void end() noexcept;
  /// Since `begin`, by place. After `end`.
  [[nodiscard]] static std::vector<allocation_place> places();
};

}  // namespace penstock::testing

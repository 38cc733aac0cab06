#pragma once

#include <chrono>

namespace penstock::testing {

/// When a test's clock begins: not at its zero, which would hide a time that was never set.
inline constexpr std::chrono::steady_clock::time_point start{std::chrono::hours{1}};

}  // namespace penstock::testing

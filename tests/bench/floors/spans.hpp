#pragma once

#include <chrono>

namespace penstock::bench {

/// How long each contender of the gate runs for in a turn, and before the first one.
inline constexpr std::chrono::milliseconds turn_span{400};
inline constexpr std::chrono::milliseconds warm_up_span{150};

}  // namespace penstock::bench

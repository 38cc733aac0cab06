#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/launch.cuh"
#include "kernels/session_frame.hpp"

namespace penstock {

/// How a block goes along a session: `Lanes` neighbouring channels side by side, so that what it loads of a step lies
/// together, and in each the steps dealt out over the other threads. Lanes is a power of two, at most 32.
template <int Lanes>
struct session_block {
  static constexpr int threads = block_threads / Lanes;    ///< along the steps
  static constexpr int warp_steps = warp_threads / Lanes;  ///< of these, in one warp

  /// Which channel of the block this thread has, and its place along the steps in the block and in its warp.
  [[nodiscard]] static __device__ int lane() { return static_cast<int>(threadIdx.x) % Lanes; }
  [[nodiscard]] static __device__ int place() { return static_cast<int>(threadIdx.x) / Lanes; }
  [[nodiscard]] static __device__ int place_in_warp() { return place() % warp_steps; }
  [[nodiscard]] static __device__ int warp() { return static_cast<int>(threadIdx.x) / warp_threads; }
  /// Warps of a block that may have fewer than `block_threads`.
  [[nodiscard]] static __device__ int warps() { return static_cast<int>(blockDim.x) / warp_threads; }
};

/// The lanes that suit so many channels: eight floats fill the 32 bytes that the memory gives at once.
[[nodiscard]] constexpr int lanes_for(std::int64_t channels) noexcept {
  return channels >= 5 ? 8 : channels >= 3 ? 4 : static_cast<int>(std::max<std::int64_t>(channels, 1));
}

}  // namespace penstock

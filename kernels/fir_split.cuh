#pragma once

#include <cstdint>

#include "kernels/launch.cuh"

namespace penstock {

/// What the blocks of a launch need to know of the filter, and how they share a batch: of each frame, `tiles` blocks
/// filter each of `groups` groups of channels, and `keeps` blocks write its session's state: 0 where those do it.
struct fir_split {
  std::int64_t frames = 0;
  std::int64_t tiles = 1;
  std::int64_t groups = 1;
  std::int64_t keeps = 1;
  std::int64_t decimation = 1;
  std::int64_t taps = 1;
  std::int64_t out_pitch = 0;  ///< elements from one frame of the output to the next
  int threads = block_threads;
  int taps_at_once = 1;  ///< that fir_by_run stages
  int group = 1;         ///< channels of a group; the last may have fewer
  int outputs = 1;       ///< steps of a tile
  int rows = 1;          ///< of a phase, see fir_by_tile

  [[nodiscard]] std::int64_t parts() const noexcept { return tiles * groups + keeps; }
};

/// What one block does for one frame.
struct fir_item {
  std::int32_t frame;
  std::int64_t first_output;  ///< of the frame's
  std::int64_t channel;       ///< the first of the group
  std::int64_t keep;          ///< the part of the state to be written, −1: none
};

/// Of a block in the column `blockIdx.x` of the grid, of which every row takes frames in turn.
[[nodiscard]] __device__ __forceinline__ fir_item item_of(const fir_split& split, std::int32_t frame) {
  const std::int64_t filters = split.tiles * split.groups;
  const std::int64_t part = blockIdx.x;
  const std::int64_t tile = split.groups == 1 ? part : part / split.groups;
  return {frame, tile * split.outputs, (part - tile * split.groups) * split.group,
          part < filters ? std::int64_t{-1} : part - filters};
}

}  // namespace penstock

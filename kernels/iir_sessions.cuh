#pragma once

#include <cstdint>

#include "kernels/iir_tile.cuh"
#include "kernels/session_cursor.hpp"

namespace penstock {

struct iir_sessions {
  session_history<float> history;  ///< for the way through the frames; its state is not this one's
  section_table table;
  float* output = nullptr;
  std::int64_t groups = 1;  ///< of lanes
};

/// A block takes its lanes of a session through all of its frames in the batch; those of the other frames are idle.
template <int Lanes>
__global__ void __launch_bounds__(block_threads) filter_sessions(const __grid_constant__ iir_sessions launched) {
  using block = session_block<Lanes>;
  __shared__ shared_states<Lanes> shared;
  const session_arguments& session = launched.history.session;
  const auto head = static_cast<std::int32_t>(static_cast<std::int64_t>(blockIdx.x) / launched.groups);
  if (session.frames[head].previous >= 0) {
    return;
  }
  const std::int64_t lane = static_cast<std::int64_t>(blockIdx.x) % launched.groups * Lanes + block::lane();
  const std::int64_t lanes = launched.history.channels;
  const bool inside = lane < lanes;

  std::int64_t steps = 0;
  std::int32_t last = head;
  for (std::int32_t frame = head; frame >= 0; frame = session.frames[frame].next) {
    steps += session.frames[frame].steps;
    last = frame;
  }

  const session_frame& from = session.frames[head];
  const auto* const kept = reinterpret_cast<const double*>(session.half(from.place, from.half));
  for (int index = block::place(); index < launched.table.count; index += block::threads) {
    const std::int64_t place = 2 * index * lanes + lane;
    shared.carried[index][block::lane()] =
        inside && from.position > 0 ? section_state{kept[place], kept[place + lanes]} : section_state{0.0, 0.0};
  }
  __syncthreads();

  session_cursor<float> cursor{launched.history, head};
  for (std::int64_t begin = 0; begin < steps; begin += block::threads * thread_steps) {
    const std::int64_t first = begin + block::place() * thread_steps;
    const auto count = static_cast<int>(max(min(steps - first, std::int64_t{thread_steps}), std::int64_t{0}));
    double values[thread_steps];
#pragma unroll
    for (int i = 0; i < thread_steps; ++i) {
      values[i] =
          inside && i < count ? static_cast<double>(launched.history.input[cursor.index(first + i) + lane]) : 0.0;
    }
    const bool tile_ends = count > 0 && (first + count == steps || block::place() == block::threads - 1);
    filter_tile<Lanes>(launched.table, values, count, tile_ends, shared);
#pragma unroll
    for (int i = 0; i < thread_steps; ++i) {
      if (inside && i < count) {
        launched.output[cursor.index(first + i) + lane] = static_cast<float>(values[i]);
      }
    }
  }

  const session_frame& into = session.frames[last];
  auto* const left = reinterpret_cast<double*>(session.half(into.place, 1 - into.half));
  for (int index = block::place(); inside && index < launched.table.count; index += block::threads) {
    const std::int64_t place = 2 * index * lanes + lane;
    left[place] = shared.carried[index][block::lane()].first;
    left[place + lanes] = shared.carried[index][block::lane()].second;
  }
}

}  // namespace penstock

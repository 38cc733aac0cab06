#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/iir_tile.cuh"
#include "kernels/session_history.hpp"

namespace penstock {

/// Frames so long that they are cut into chunks, which blocks take side by side: filter_chunks<Lanes, false> finds what
/// each chunk leaves when it is found at rest, carry_chunks what each is found with, and filter_chunks<Lanes, true>
/// filters it from there.
struct iir_chunks {
  session_history<float> history;  ///< for its channels; its state is not this one's
  section_table table;
  const double* powers = nullptr;  ///< entry k is the cascade's map over 2^k steps: rows × rows, by rows
  double* states = nullptr;        ///< frames × chunks × channels × rows
  float* output = nullptr;
  std::int64_t chunks = 1;  ///< of a frame, at most
  int chunk_power = 0;      ///< a chunk is 2^chunk_power steps, but the last of its frame
  int rows = 2;             ///< two for each section

  [[nodiscard]] __host__ __device__ std::int64_t chunk_steps() const { return std::int64_t{1} << chunk_power; }
  [[nodiscard]] __device__ double* states_at(std::int64_t frame, std::int64_t chunk, std::int64_t channel) const {
    return states + ((frame * chunks + chunk) * history.channels + channel) * rows;
  }
};

/// A row for each lane of a warp.
inline constexpr std::size_t most_chunked_sections = warp_threads / 2;

/// A tile of a frame, as it lies in shared memory: each thread's steps one behind the other, and one more, so that
/// neighbouring threads meet no bank twice.
template <int Lanes>
struct staged_tile {
  static constexpr int steps = session_block<Lanes>::threads * thread_steps;
  float values[session_block<Lanes>::threads * (thread_steps + 1) * Lanes];

  /// Where a word of the tile is, counted through its steps and their lanes.
  [[nodiscard]] static __device__ int place(int word) {
    const int step = word / Lanes;
    return (step + step / thread_steps) * Lanes + word % Lanes;
  }
};

/// Blocks (chunk, group of lanes, frame).
template <int Lanes, bool Found>
__global__ void __launch_bounds__(block_threads) filter_chunks(const __grid_constant__ iir_chunks launched) {
  using block = session_block<Lanes>;
  using staged = staged_tile<Lanes>;
  __shared__ shared_states<Lanes> shared;
  __shared__ staged tile;
  const session_frame& frame = launched.history.session.frames[blockIdx.z];
  const std::int64_t begin = blockIdx.x * launched.chunk_steps();
  const std::int64_t end = min(begin + launched.chunk_steps(), static_cast<std::int64_t>(frame.steps));
  if (begin >= end) {
    return;
  }
  const std::int64_t channels = launched.history.channels;
  const std::int64_t channel = std::int64_t{blockIdx.y} * Lanes;
  const bool inside = channel + block::lane() < channels;
  const int lanes_inside = static_cast<int>(min(channels - channel, std::int64_t{Lanes}));
  double* const states = launched.states_at(blockIdx.z, blockIdx.x, channel + (inside ? block::lane() : 0));
  for (int index = block::place(); index < launched.table.count; index += block::threads) {
    shared.carried[index][block::lane()] =
        Found && inside ? section_state{states[2 * index], states[2 * index + 1]} : section_state{0.0, 0.0};
  }

  for (std::int64_t first = begin; first < end; first += staged::steps) {
    const auto steps = static_cast<int>(min(end - first, static_cast<std::int64_t>(staged::steps)));
    const std::int64_t at = blockIdx.z * launched.history.pitch + first * channels + channel;
    const float* const from = launched.history.input + at;
#pragma unroll
    for (int each = 0; each < thread_steps; ++each) {
      const int word = static_cast<int>(threadIdx.x) + each * block_threads;
      const bool there = word / Lanes < steps && word % Lanes < lanes_inside;
      tile.values[staged::place(word)] = there ? from[word / Lanes * channels + word % Lanes] : 0.0F;
    }
    __syncthreads();
    float* const mine = tile.values + block::place() * (thread_steps + 1) * Lanes + block::lane();
    double values[thread_steps];
#pragma unroll
    for (int i = 0; i < thread_steps; ++i) {
      values[i] = static_cast<double>(mine[i * Lanes]);
    }
    const int count = min(max(steps - block::place() * thread_steps, 0), thread_steps);
    const bool tile_ends = count > 0 && block::place() * thread_steps + count == steps;
    filter_tile<Lanes>(launched.table, values, count, tile_ends, shared);
    if constexpr (Found) {
#pragma unroll
      for (int i = 0; i < thread_steps; ++i) {
        mine[i * Lanes] = static_cast<float>(values[i]);
      }
      __syncthreads();
      float* const to = launched.output + at;
#pragma unroll
      for (int each = 0; each < thread_steps; ++each) {
        const int word = static_cast<int>(threadIdx.x) + each * block_threads;
        if (word / Lanes < steps && word % Lanes < lanes_inside) {
          to[word / Lanes * channels + word % Lanes] = tile.values[staged::place(word)];
        }
      }
      __syncthreads();
    }
  }

  if constexpr (!Found) {
    for (int index = block::place(); inside && index < launched.table.count; index += block::threads) {
      states[2 * index] = shared.carried[index][block::lane()].first;
      states[2 * index + 1] = shared.carried[index][block::lane()].second;
    }
  }
}

/// A map, lower triangular but for the pairs of the sections, applied to a state of which each lane of the warp has a
/// row, as it has of the map.
template <int MostRows>
__device__ __forceinline__ double mapped(const double (&row_of_map)[MostRows], double state, int row) {
  double sum = 0.0;
#pragma unroll
  for (int column = 0; column < MostRows; ++column) {
    const double other = __shfl_sync(~0U, state, column);
    // What is later in the cascade has no say, not even with a NaN.
    sum = column <= (row | 1) ? fma(row_of_map[column], other, sum) : sum;
  }
  return sum;
}

template <int MostRows>
__device__ __forceinline__ void read_row(const double* powers, int power, int row, int rows,
                                         double (&row_of_map)[MostRows]) {
#pragma unroll
  for (int column = 0; column < MostRows; ++column) {
    row_of_map[column] = column < rows ? powers[(power * rows + row) * rows + column] : 0.0;
  }
}

/// A warp for each channel of a session, blocks (eight channels, frame): puts what each chunk is found with in the
/// place of what it left, and keeps the session's state.
template <int MostRows>
__global__ void __launch_bounds__(block_threads) carry_chunks(const __grid_constant__ iir_chunks launched) {
  constexpr int ahead = 8;
  const session_arguments& session = launched.history.session;
  const auto head = static_cast<std::int32_t>(blockIdx.y);
  const session_frame& from = session.frames[head];
  if (from.previous >= 0) {
    return;
  }
  const int rows = launched.rows;
  const std::int64_t channels = launched.history.channels;
  const std::int64_t channel = std::int64_t{blockIdx.x} * block_warps + threadIdx.x / warp_threads;
  if (channel >= channels) {
    return;
  }
  // Lanes beyond the rows do what the last one does.
  const int row = min(static_cast<int>(threadIdx.x) % warp_threads, rows - 1);
  const bool writes = static_cast<int>(threadIdx.x) % warp_threads < rows;
  double row_of_chunk[MostRows];
  read_row(launched.powers, launched.chunk_power, row, rows, row_of_chunk);
  const auto* const kept = reinterpret_cast<const double*>(session.half(from.place, from.half));
  double state = from.position > 0 ? kept[row * channels + channel] : 0.0;
  std::int32_t last = head;
  for (std::int32_t index = head; index >= 0; index = session.frames[index].next) {
    last = index;
    const std::int64_t steps = session.frames[index].steps;
    const std::int64_t whole = steps >> launched.chunk_power;
    double next[ahead];
    const auto ask = [&](std::int64_t first) {
#pragma unroll
      for (int each = 0; each < ahead; ++each) {
        next[each] = first + each < whole ? launched.states_at(index, first + each, channel)[row] : 0.0;
      }
    };
    ask(0);
    for (std::int64_t first = 0; first < whole; first += ahead) {
      double left[ahead];
#pragma unroll
      for (int each = 0; each < ahead; ++each) {
        left[each] = next[each];
      }
      ask(first + ahead);
#pragma unroll
      for (int each = 0; each < ahead; ++each) {
        if (first + each < whole) {
          if (writes) {
            launched.states_at(index, first + each, channel)[row] = state;
          }
          state = mapped(row_of_chunk, state, row) + left[each];
        }
      }
    }
    const auto rest = static_cast<int>(steps - (whole << launched.chunk_power));
    if (rest > 0) {
      double* const at = launched.states_at(index, whole, channel) + row;
      const double left = *at;
      __syncwarp();
      if (writes) {
        *at = state;
      }
      for (int power = 0; rest >> power != 0; ++power) {
        if ((rest >> power & 1) != 0) {
          double row_of_power[MostRows];
          read_row(launched.powers, power, row, rows, row_of_power);
          state = mapped(row_of_power, state, row);
        }
      }
      state += left;
    }
  }
  const session_frame& into = session.frames[last];
  if (writes) {
    reinterpret_cast<double*>(session.half(into.place, 1 - into.half))[row * channels + channel] = state;
  }
}

}  // namespace penstock

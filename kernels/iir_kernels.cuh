#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/iir.hpp"
#include "kernels/session.cuh"
#include "kernels/session.hpp"

namespace penstock {

/// Steps that each thread filters.
inline constexpr int thread_steps = 16;
inline constexpr int max_lanes = 8;

/// State of a section.
struct section_state {
  double first;
  double second;
};

/// Maps the state of a section over a number of steps with zero input.
struct state_map {
  double at[2][2];

  [[nodiscard]] __device__ __forceinline__ section_state operator()(const section_state& from) const {
    return {fma(at[0][0], from.first, at[0][1] * from.second), fma(at[1][0], from.first, at[1][1] * from.second)};
  }
};

/// Maps of one section: entry i is over i × thread_steps steps, up to a whole warp.
inline constexpr int section_maps = warp_threads + 1;

__device__ __forceinline__ section_state sum(const section_state& a, const section_state& b) {
  return {a.first + b.first, a.second + b.second};
}

/// One step of a section, in transposed direct form II.
__device__ __forceinline__ double filter_step(const iir_section& section, double x, section_state& state) {
  const double y = fma(section.b0, x, state.first);
  state.first = fma(-section.a1, y, fma(section.b1, x, state.second));
  state.second = fma(-section.a2, y, section.b2 * x);
  return y;
}

/// Shared memory of a block, lanes side by side.
template <int Lanes>
struct shared_states {
  section_state carried[max_iir_sections][Lanes];  ///< after the steps that are done
  section_state warp_states[block_warps][Lanes];
};

/// The state before each thread's steps. `left` is the state after its steps if it starts at rest (for the first
/// thread: from the carried state).
template <int Lanes>
__device__ section_state found_state(section_state left, const section_state& carried, const state_map* maps,
                                     section_state (&warp_states)[block_warps][Lanes]) {
  using block = session_block<Lanes>;
  const auto earlier = [](const section_state& from, int distance) {
    return section_state{__shfl_up_sync(~0U, from.first, distance * Lanes),
                         __shfl_up_sync(~0U, from.second, distance * Lanes)};
  };
  const int place = block::place_in_warp();
#pragma unroll
  for (int distance = 1; distance < block::warp_steps; distance *= 2) {
    const section_state other = earlier(left, distance);
    if (place >= distance) {
      left = sum(left, maps[distance](other));
    }
  }
  if (place == block::warp_steps - 1) {
    warp_states[block::warp()][block::lane()] = left;
  }
  const section_state nearest = earlier(left, 1);
  __syncthreads();
  section_state before{0.0, 0.0};
  for (int warp = 0; warp < block::warp(); ++warp) {
    before = sum(maps[block::warp_steps](before), warp_states[warp][block::lane()]);
  }
  if (block::place() == 0) {
    return carried;
  }
  return place == 0 ? before : sum(nearest, maps[place](before));
}

/// The sections of a filter, and for each its maps.
struct section_table {
  const iir_section* sections = nullptr;
  const state_map* maps = nullptr;  ///< section_maps of each
  int count = 0;
};

/// Takes the steps of all threads through all sections; `count` is thread_steps except for the last thread.
template <int Lanes>
__device__ void filter_tile(const section_table& table, double (&values)[thread_steps], int count, bool last,
                            shared_states<Lanes>& shared) {
  using block = session_block<Lanes>;
  for (int index = 0; index < table.count; ++index) {
    const iir_section section = table.sections[index];
    section_state& carried = shared.carried[index][block::lane()];
    const section_state start = block::place() == 0 ? carried : section_state{0.0, 0.0};
    section_state state = start;
#pragma unroll
    for (int i = 0; i < thread_steps; ++i) {
      static_cast<void>(filter_step(section, values[i], state));
    }
    state = found_state<Lanes>(state, start, table.maps + index * section_maps, shared.warp_states);
#pragma unroll
    for (int i = 0; i < thread_steps; ++i) {
      if (i < count) {
        values[i] = filter_step(section, values[i], state);
      }
    }
    if (last) {
      carried = state;
    }
    // Before the next section or tile uses warp_states and the carried state.
    __syncthreads();
  }
}

struct iir_sessions {
  session_history<float> history;  ///< for the way through the frames; its state is not this one's
  section_table table;
  float* output = nullptr;
  std::int64_t groups = 1;  ///< of lanes
};

/// A block takes its lanes of a session through all of its frames in the batch. Blocks of frames that are not a
/// session's first exit.
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

  const session_frame& last_entry = session.frames[last];
  auto* const left = reinterpret_cast<double*>(session.half(last_entry.place, 1 - last_entry.half));
  for (int index = block::place(); inside && index < launched.table.count; index += block::threads) {
    const std::int64_t place = 2 * index * lanes + lane;
    left[place] = shared.carried[index][block::lane()].first;
    left[place + lanes] = shared.carried[index][block::lane()].second;
  }
}

/// Long frames are cut into chunks, which blocks filter in parallel: filter_chunks<Lanes, false> computes the state
/// that each chunk leaves from rest, carry_chunks the true state before each chunk, and filter_chunks<Lanes, true>
/// filters from there.
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
inline constexpr std::size_t max_chunked_sections = warp_threads / 2;

/// A tile of a frame in shared memory: the steps of each thread together, and one more as padding against bank
/// conflicts.
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
      float* const destination = launched.output + at;
#pragma unroll
      for (int each = 0; each < thread_steps; ++each) {
        const int word = static_cast<int>(threadIdx.x) + each * block_threads;
        if (word / Lanes < steps && word % Lanes < lanes_inside) {
          destination[word / Lanes * channels + word % Lanes] = tile.values[staged::place(word)];
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

/// Applies a map to a state. Each lane of the warp has one row of both. The map is lower triangular except for the
/// pairs of the sections.
template <int MostRows>
__device__ __forceinline__ double mapped(const double (&row_of_map)[MostRows], double state, int row) {
  double sum = 0.0;
#pragma unroll
  for (int column = 0; column < MostRows; ++column) {
    const double other = __shfl_sync(~0U, state, column);
    // Later sections have no influence, not even with a NaN.
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

/// One warp for each channel of a session, in blocks (eight channels, frame): replaces the state that each chunk leaves
/// by the state before it, and writes the new state of the session.
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
  // Lanes beyond the rows repeat the last row.
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
  const session_frame& last_entry = session.frames[last];
  if (writes) {
    reinterpret_cast<double*>(session.half(last_entry.place, 1 - last_entry.half))[row * channels + channel] = state;
  }
}

}  // namespace penstock

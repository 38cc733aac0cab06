#pragma once

#include "kernels/iir.hpp"
#include "kernels/session_block.cuh"

namespace penstock {

/// Steps that each thread filters.
inline constexpr int thread_steps = 16;
inline constexpr int most_lanes = 8;

/// A section's state, or what one leaves.
struct section_state {
  double first;
  double second;
};

/// What a section's state becomes over some steps in which nothing comes in.
struct state_map {
  double at[2][2];

  [[nodiscard]] __device__ __forceinline__ section_state operator()(const section_state& from) const {
    return {fma(at[0][0], from.first, at[0][1] * from.second), fma(at[1][0], from.first, at[1][1] * from.second)};
  }
};

/// Of one section: entry i is the map over i × thread_steps steps, up to all of a warp's.
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

/// What the block shares of its session: one lane beside the other.
template <int Lanes>
struct shared_states {
  section_state carried[most_iir_sections][Lanes];  ///< after the steps that are done
  section_state of_warps[block_warps][Lanes];
};

/// The state in which each thread finds the section, `left` being what it leaves itself when it finds it at rest (the
/// first thread: as it is).
template <int Lanes>
__device__ section_state found_state(section_state left, const section_state& carried, const state_map* maps,
                                     section_state (&of_warps)[block_warps][Lanes]) {
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
    of_warps[block::warp()][block::lane()] = left;
  }
  const section_state nearest = earlier(left, 1);
  __syncthreads();
  section_state before{0.0, 0.0};
  for (int warp = 0; warp < block::warp(); ++warp) {
    before = sum(maps[block::warp_steps](before), of_warps[warp][block::lane()]);
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

/// Takes `count` steps of each thread, all but the last thread's thread_steps, through all sections.
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
    state = found_state<Lanes>(state, start, table.maps + index * section_maps, shared.of_warps);
#pragma unroll
    for (int i = 0; i < thread_steps; ++i) {
      if (i < count) {
        values[i] = filter_step(section, values[i], state);
      }
    }
    if (last) {
      carried = state;
    }
    // Before the next section, or the next tile, uses of_warps and what is carried.
    __syncthreads();
  }
}

}  // namespace penstock

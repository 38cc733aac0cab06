#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "kernels/device_array.cuh"
#include "kernels/iir.hpp"
#include "kernels/session_block.cuh"
#include "kernels/session_cursor.hpp"

namespace penstock {
namespace {

/// Steps that each thread filters.
constexpr int thread_steps = 16;
constexpr int most_lanes = 8;

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
constexpr int section_maps = warp_threads + 1;

struct iir_launch {
  session_history<float> history;  ///< for the way through the frames; its state is not this one's
  const iir_section* sections = nullptr;
  const state_map* maps = nullptr;
  float* output = nullptr;
  std::int64_t groups = 1;  ///< of lanes
  int section_count = 0;
};

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

/// Takes `count` steps of each thread, all but the last thread's thread_steps, through all sections.
template <int Lanes>
__device__ void filter_tile(const iir_launch& launched, double (&values)[thread_steps], int count, bool last,
                            shared_states<Lanes>& shared) {
  using block = session_block<Lanes>;
  for (int index = 0; index < launched.section_count; ++index) {
    const iir_section section = launched.sections[index];
    section_state& carried = shared.carried[index][block::lane()];
    const section_state start = block::place() == 0 ? carried : section_state{0.0, 0.0};
    section_state state = start;
#pragma unroll
    for (int i = 0; i < thread_steps; ++i) {
      static_cast<void>(filter_step(section, values[i], state));
    }
    state = found_state<Lanes>(state, start, launched.maps + index * section_maps, shared.of_warps);
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

/// A block takes its lanes of a session through all of its frames in the batch; those of the other frames are idle.
template <int Lanes>
__global__ void __launch_bounds__(block_threads) filter_sessions(const __grid_constant__ iir_launch launched) {
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
  for (int index = block::place(); index < launched.section_count; index += block::threads) {
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
    filter_tile<Lanes>(launched, values, count, tile_ends, shared);
#pragma unroll
    for (int i = 0; i < thread_steps; ++i) {
      if (inside && i < count) {
        launched.output[cursor.index(first + i) + lane] = static_cast<float>(values[i]);
      }
    }
  }

  const session_frame& into = session.frames[last];
  auto* const left = reinterpret_cast<double*>(session.half(into.place, 1 - into.half));
  for (int index = block::place(); inside && index < launched.section_count; index += block::threads) {
    const std::int64_t place = 2 * index * lanes + lane;
    left[place] = shared.carried[index][block::lane()].first;
    left[place + lanes] = shared.carried[index][block::lane()].second;
  }
}

state_map followed_by(const state_map& first, const state_map& second) {
  state_map both{};
  for (int row = 0; row < 2; ++row) {
    for (int column = 0; column < 2; ++column) {
      both.at[row][column] = second.at[row][0] * first.at[0][column] + second.at[row][1] * first.at[1][column];
    }
  }
  return both;
}

std::vector<state_map> make_maps(std::span<const iir_section> sections) {
  std::vector<state_map> maps;
  for (const iir_section& section : sections) {
    const state_map at_rest{{{1.0, 0.0}, {0.0, 1.0}}};
    const state_map step{{{-section.a1, 1.0}, {-section.a2, 0.0}}};
    state_map of_thread = at_rest;
    for (int i = 0; i < thread_steps; ++i) {
      of_thread = followed_by(of_thread, step);
    }
    state_map map = at_rest;
    for (int i = 0; i < section_maps; ++i) {
      maps.push_back(map);
      map = followed_by(map, of_thread);
    }
  }
  return maps;
}

class iir_cuda final : public operation {
 public:
  explicit iir_cuda(iir_settings settings)
      : settings_{std::move(settings)}, sections_{settings_.sections}, maps_{make_maps(settings_.sections)} {}

  [[nodiscard]] std::size_t state_bytes() const noexcept override { return settings_.state_bytes(); }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    const int lanes = lanes_for(settings_.lanes);
    const iir_launch launched{.history = {.input = static_cast<const float*>(arguments.inputs[0]),
                                          .session = arguments.session,
                                          .pitch = settings_.pitch(arguments.extent),
                                          .channels = settings_.lanes,
                                          .length = 0},
                              .sections = sections_.data(),
                              .maps = maps_.data(),
                              .output = static_cast<float*>(arguments.output),
                              .groups = divide_up(settings_.lanes, lanes),
                              .section_count = static_cast<int>(settings_.sections.size())};
    const dim3 grid(static_cast<unsigned>(arguments.extent.frames * launched.groups));
    auto* const kernel = lanes == 1   ? &filter_sessions<1>
                         : lanes == 2 ? &filter_sessions<2>
                         : lanes == 4 ? &filter_sessions<4>
                                      : &filter_sessions<most_lanes>;
    return launch(stream, grid, dim3(block_threads), kernel, launched);
  }

 private:
  const iir_settings settings_;
  const device_array<iir_section> sections_;
  const device_array<state_map> maps_;
};

}  // namespace

std::unique_ptr<operation> make_iir_cuda(const operation_request& request) {
  return std::make_unique<iir_cuda>(parse_iir(request.settings, request.inputs[0]));
}

}  // namespace penstock

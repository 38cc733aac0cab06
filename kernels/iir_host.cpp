#include "kernels/iir.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/iir_blocks_host.hpp"
#include "kernels/vector_clones.hpp"

namespace penstock {
namespace {

/// The steps of some neighbouring lanes of a session: those of one frame after the other, with the state between.
struct lane_run {
  std::span<const iir_section> sections;
  const iir_blocks_host& blocks;
  const float* input;
  float* output;
  std::int64_t steps;
  std::int64_t stride;  ///< from one step to the next
  double* state;        ///< sections × 2 × lanes
};

template <int Lanes>
[[gnu::always_inline]] inline void filter(const lane_run& run) noexcept {
  constexpr auto lanes = static_cast<std::size_t>(Lanes);
  for (std::int64_t step = 0; step < run.steps; ++step) {
    std::array<double, lanes> value;
    std::copy_n(run.input + step * run.stride, lanes, value.data());
    double* state = run.state;
    for (const iir_section& section : run.sections) {
#pragma omp simd
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        const double x = value[lane];
        const double y = section.b0 * x + state[lane];
        state[lane] = section.b1 * x - section.a1 * y + state[lanes + lane];
        state[lanes + lane] = section.b2 * x - section.a2 * y;
        value[lane] = y;
      }
      state += 2 * lanes;
    }
    float* const out = run.output + step * run.stride;
#pragma omp simd
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      out[lane] = static_cast<float>(value[lane]);
    }
  }
}

void skip(lane_run& run, std::int64_t steps) noexcept {
  run.input += steps * run.stride;
  run.output += steps * run.stride;
  run.steps -= steps;
}

constexpr std::int64_t most_lanes = 8;

PENSTOCK_VECTOR_CLONES void filter_eight(const lane_run& run) {
  filter<8>(run);
}
PENSTOCK_VECTOR_CLONES void filter_four(const lane_run& run) {
  filter<4>(run);
}
/// In blocks of steps; step by step what is left over, and a block with a value that is not finite.
void filter_one(const lane_run& run) {
  lane_run left = run;
  while (left.steps > 0) {
    skip(left, run.blocks.run(left.input, left.output, left.steps, left.stride, left.state));
    lane_run few = left;
    few.steps = std::min(left.steps, static_cast<std::int64_t>(iir_blocks_host::steps));
    filter<1>(few);
    skip(left, few.steps);
  }
}

struct lane_group {
  std::int64_t lanes;
  void (*filter)(const lane_run&);
};

lane_group group_for(std::int64_t left) noexcept {
  return left >= most_lanes ? lane_group{most_lanes, filter_eight}
         : left >= 4        ? lane_group{4, filter_four}
                            : lane_group{1, filter_one};
}

class iir_host final : public operation {
 public:
  explicit iir_host(iir_settings settings) : settings_{std::move(settings)}, blocks_{settings_.sections} {}

  [[nodiscard]] std::size_t state_bytes() const noexcept override { return settings_.state_bytes(); }

  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    for (std::int64_t frame = 0; frame < arguments.extent.frames; ++frame) {
      if (arguments.session.frames[frame].previous >= 0) {
        continue;
      }
      for (std::int64_t lane = 0; lane < settings_.lanes;) {
        const lane_group group = group_for(settings_.lanes - lane);
        run_session(arguments, static_cast<std::int32_t>(frame), lane, group);
        lane += group.lanes;
      }
    }
    return {};
  }

 private:
  void run_session(const operation_arguments& arguments, std::int32_t first, std::int64_t lane,
                   const lane_group& group) const noexcept {
    const session_frame* const frames = arguments.session.frames;
    const std::int64_t pitch = settings_.pitch(arguments.extent);
    std::array<double, most_iir_sections * 2 * most_lanes> state;
    restore(arguments.session, frames[first], lane, group.lanes, state.data());
    std::int32_t last = first;
    for (std::int32_t frame = first; frame >= 0; frame = frames[frame].next) {
      const std::int64_t begin = frame * pitch + lane;
      group.filter({settings_.sections, blocks_, static_cast<const float*>(arguments.inputs[0]) + begin,
                    static_cast<float*>(arguments.output) + begin, frames[frame].steps, settings_.lanes, state.data()});
      clear_traces(std::span{state}.first(settings_.sections.size() * 2 * static_cast<std::size_t>(group.lanes)));
      last = frame;
    }
    leave(arguments.session, frames[last], lane, group.lanes, state.data());
  }

  static void clear_traces(std::span<double> state) noexcept {
    for (double& value : state) {
      value = std::abs(value) < 1e-100 ? 0.0 : value;
    }
  }

  void restore(const session_arguments& session, const session_frame& from, std::int64_t lane, std::int64_t lanes,
               double* state) const noexcept {
    const auto rows = static_cast<std::int64_t>(2 * settings_.sections.size());
    if (from.position == 0) {
      std::fill_n(state, rows * lanes, 0.0);
      return;
    }
    const auto* const kept = reinterpret_cast<const double*>(session.half(from.place, from.half)) + lane;
    for (std::int64_t row = 0; row < rows; ++row) {
      std::copy_n(kept + row * settings_.lanes, lanes, state + row * lanes);
    }
  }

  void leave(const session_arguments& session, const session_frame& last, std::int64_t lane, std::int64_t lanes,
             const double* state) const noexcept {
    const auto rows = static_cast<std::int64_t>(2 * settings_.sections.size());
    auto* const kept = reinterpret_cast<double*>(session.half(last.place, 1 - last.half)) + lane;
    for (std::int64_t row = 0; row < rows; ++row) {
      std::copy_n(state + row * lanes, lanes, kept + row * settings_.lanes);
    }
  }

  const iir_settings settings_;
  const iir_blocks_host blocks_;
};

}  // namespace

std::unique_ptr<operation> make_iir_host(const operation_request& request) {
  return std::make_unique<iir_host>(parse_iir(request.settings, request.inputs[0]));
}

}  // namespace penstock

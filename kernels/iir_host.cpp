#include "kernels/iir.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "kernels/function_attributes.hpp"

namespace penstock {
namespace {

constexpr std::size_t block_steps = 8;
using block = double __attribute__((vector_size(block_steps * sizeof(double))));

/// A section's outputs over a block of steps, as a sum of columns: one for each input, one for each value of its state.
struct block_section {
  block by_input[block_steps];
  block by_state[2];
  iir_section coefficients;
};

/// What a section gives from a state on for an input of one step, then zeros.
std::array<double, block_steps> response_of(const iir_section& section, double input, double first_state,
                                            double second_state) noexcept {
  std::array<double, block_steps> out;
  for (std::size_t step = 0; step < block_steps; ++step) {
    const double x = step == 0 ? input : 0.0;
    const double y = section.b0 * x + first_state;
    first_state = section.b1 * x - section.a1 * y + second_state;
    second_state = section.b2 * x - section.a2 * y;
    out[step] = y;
  }
  return out;
}

block_section make_section(const iir_section& section) noexcept {
  block_section made;
  made.coefficients = section;
  const auto to_first = response_of(section, 0.0, 1.0, 0.0);
  const auto to_second = response_of(section, 0.0, 0.0, 1.0);
  const auto to_input = response_of(section, 1.0, 0.0, 0.0);
  for (std::size_t step = 0; step < block_steps; ++step) {
    made.by_state[0][step] = to_first[step];
    made.by_state[1][step] = to_second[step];
    for (std::size_t input = 0; input < block_steps; ++input) {
      made.by_input[input][step] = step < input ? 0.0 : to_input[step - input];
    }
  }
  return made;
}

/// `values` are the section's inputs and become its outputs. They lie in memory, from where each is broadcast to a
/// vector as it is loaded.
[[gnu::always_inline]] inline void filter_block(const block_section& section, double* values, double* state) noexcept {
  block y = values[0] * section.by_input[0];
  for (std::size_t input = 1; input < block_steps; ++input) {
    y += values[input] * section.by_input[input];
  }
  y += state[0] * section.by_state[0] + state[1] * section.by_state[1];
  const iir_section& c = section.coefficients;
  const double before_last = c.b2 * values[block_steps - 2] - c.a2 * y[block_steps - 2];
  state[0] = c.b1 * values[block_steps - 1] - c.a1 * y[block_steps - 1] + before_last;
  state[1] = c.b2 * values[block_steps - 1] - c.a2 * y[block_steps - 1];
  std::memcpy(values, &y, sizeof y);
}

PENSTOCK_VECTOR_CLONES std::int64_t filter_blocks(std::span<const block_section> sections, const float* input,
                                                  float* output, std::int64_t blocks, std::int64_t stride,
                                                  double* state) {
  constexpr auto count = static_cast<std::int64_t>(block_steps);
  for (std::int64_t done = 0; done < blocks; ++done, input += count * stride, output += count * stride) {
    double values[block_steps];
    float not_finite = 0.0F;
    for (std::int64_t step = 0; step < count; ++step) {
      const float value = input[step * stride];
      not_finite += 0.0F * value;
      values[step] = static_cast<double>(value);
    }
    if (std::isnan(not_finite)) {
      return done;
    }
    double* section_state = state;
    for (const block_section& section : sections) {
      filter_block(section, values, section_state);
      section_state += 2;
    }
    for (std::int64_t step = 0; step < count; ++step) {
      output[step * stride] = static_cast<float>(values[step]);
    }
  }
  return blocks;
}

/// A cascade along one lane, a block of steps at a time: only blocks depend on each other (C. S. Burrus, Block
/// realization of digital filters, IEEE Trans. Audio Electroacoust. 20, 1972).
class block_filter {
 public:
  explicit block_filter(std::span<const iir_section> sections) {
    for (const iir_section& section : sections) {
      sections_.push_back(make_section(section));
    }
  }

  /// Filters as many whole blocks as there are, up to the first that holds a NaN or an infinity: those must not reach
  /// the outputs before them. `stride` is in floats; `state` is sections × 2. Returns the number of steps done.
  std::int64_t run(const float* input, float* output, std::int64_t count, std::int64_t stride,
                   double* state) const noexcept {
    constexpr auto in_block = static_cast<std::int64_t>(block_steps);
    return in_block * filter_blocks(sections_, input, output, count / in_block, stride, state);
  }

 private:
  std::vector<block_section> sections_;
};

/// The steps of some neighbouring lanes of a session: those of one frame after the other, with the state between.
struct lane_run {
  std::span<const iir_section> sections;
  const block_filter& blocks;
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

constexpr std::int64_t max_lanes = 8;

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
    few.steps = std::min(left.steps, static_cast<std::int64_t>(block_steps));
    filter<1>(few);
    skip(left, few.steps);
  }
}

struct lane_group {
  std::int64_t lanes;
  void (*filter)(const lane_run&);
};

lane_group group_for(std::int64_t left) noexcept {
  return left >= max_lanes ? lane_group{max_lanes, filter_eight}
         : left >= 4       ? lane_group{4, filter_four}
                           : lane_group{1, filter_one};
}

/// One lane whose invalid samples don't reach the filter; `state` is of this lane alone.
void filter_valid(const lane_run& run, bool reset) noexcept {
  lane_run left = run;
  while (left.steps > 0) {
    lane_run valid = left;
    valid.steps = 0;
    while (valid.steps < left.steps && std::isfinite(left.input[valid.steps * left.stride])) {
      ++valid.steps;
    }
    filter_one(valid);
    skip(left, valid.steps);
    if (left.steps > 0) {
      *left.output = std::numeric_limits<float>::quiet_NaN();
      if (reset) {
        std::fill_n(left.state, 2 * left.sections.size(), 0.0);
      }
      skip(left, 1);
    }
  }
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
    std::array<double, max_iir_sections * 2 * max_lanes> state;
    restore(arguments.session, frames[first], lane, group.lanes, state.data());
    std::int32_t last = first;
    for (std::int32_t frame = first; frame >= 0; frame = frames[frame].next) {
      const std::int64_t begin = frame * pitch + lane;
      const lane_run run{settings_.sections,
                         blocks_,
                         static_cast<const float*>(arguments.inputs[0]) + begin,
                         static_cast<float*>(arguments.output) + begin,
                         frames[frame].steps,
                         settings_.lanes,
                         state.data()};
      if (settings_.on_nan == invalid_samples::spread || !any_invalid(run.input, run.steps, run.stride, group.lanes)) {
        group.filter(run);
      } else {
        filter_lanes(run, group.lanes);
      }
      clear_traces(std::span{state}.first(settings_.sections.size() * 2 * static_cast<std::size_t>(group.lanes)));
      last = frame;
    }
    leave(arguments.session, frames[last], lane, group.lanes, state.data());
  }

  /// Each lane by itself.
  void filter_lanes(const lane_run& run, std::int64_t lanes) const noexcept {
    const auto rows = static_cast<std::int64_t>(2 * settings_.sections.size());
    std::array<double, max_iir_sections * 2> state;
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      for (std::int64_t row = 0; row < rows; ++row) {
        state[static_cast<std::size_t>(row)] = run.state[row * lanes + lane];
      }
      lane_run own = run;
      own.input += lane;
      own.output += lane;
      own.state = state.data();
      filter_valid(own, settings_.on_nan == invalid_samples::reset);
      for (std::int64_t row = 0; row < rows; ++row) {
        run.state[row * lanes + lane] = state[static_cast<std::size_t>(row)];
      }
    }
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
  const block_filter blocks_;
};

}  // namespace

std::unique_ptr<operation> make_iir_host(const operation_request& request) {
  return std::make_unique<iir_host>(parse_iir(request.settings, request.inputs[0]));
}

}  // namespace penstock

#include "kernels/iir_blocks_host.hpp"

#include <array>
#include <cmath>
#include <cstring>

#include "kernels/vector_clones.hpp"

namespace penstock {
namespace {

using section = iir_blocks_host::section;
using block = iir_blocks_host::block;
constexpr std::size_t steps = iir_blocks_host::steps;

/// What a section gives from a state on for an input of one step, then zeros.
std::array<double, steps> response_of(const iir_section& of, double input, double first_state,
                                      double second_state) noexcept {
  std::array<double, steps> out;
  for (std::size_t step = 0; step < steps; ++step) {
    const double x = step == 0 ? input : 0.0;
    const double y = of.b0 * x + first_state;
    first_state = of.b1 * x - of.a1 * y + second_state;
    second_state = of.b2 * x - of.a2 * y;
    out[step] = y;
  }
  return out;
}

void make_section(const iir_section& of, section& made) noexcept {
  made.coefficients = of;
  const auto of_first = response_of(of, 0.0, 1.0, 0.0);
  const auto of_second = response_of(of, 0.0, 0.0, 1.0);
  const auto of_input = response_of(of, 1.0, 0.0, 0.0);
  for (std::size_t step = 0; step < steps; ++step) {
    made.by_state[0][step] = of_first[step];
    made.by_state[1][step] = of_second[step];
    for (std::size_t from = 0; from < steps; ++from) {
      made.by_input[from][step] = step < from ? 0.0 : of_input[step - from];
    }
  }
}

/// `values` are the section's inputs and become its outputs; they lie in memory, from where one of them is spread over
/// a vector as it is loaded.
[[gnu::always_inline]] inline void filter_block(const section& of, double* values, double* state) noexcept {
  block y = values[0] * of.by_input[0];
  for (std::size_t from = 1; from < steps; ++from) {
    y += values[from] * of.by_input[from];
  }
  y += state[0] * of.by_state[0] + state[1] * of.by_state[1];
  const iir_section& c = of.coefficients;
  const double before_last = c.b2 * values[steps - 2] - c.a2 * y[steps - 2];
  state[0] = c.b1 * values[steps - 1] - c.a1 * y[steps - 1] + before_last;
  state[1] = c.b2 * values[steps - 1] - c.a2 * y[steps - 1];
  std::memcpy(values, &y, sizeof y);
}

PENSTOCK_VECTOR_CLONES std::int64_t filter_blocks(std::span<const section> sections, const float* input, float* output,
                                                  std::int64_t blocks, std::int64_t stride, double* state) {
  constexpr auto count = static_cast<std::int64_t>(steps);
  for (std::int64_t done = 0; done < blocks; ++done, input += count * stride, output += count * stride) {
    double values[steps];
    float not_finite = 0.0F;
    for (std::int64_t step = 0; step < count; ++step) {
      const float value = input[step * stride];
      not_finite += 0.0F * value;
      values[step] = static_cast<double>(value);
    }
    if (std::isnan(not_finite)) {
      return done;
    }
    double* of_section = state;
    for (const section& each : sections) {
      filter_block(each, values, of_section);
      of_section += 2;
    }
    for (std::int64_t step = 0; step < count; ++step) {
      output[step * stride] = static_cast<float>(values[step]);
    }
  }
  return blocks;
}

}  // namespace

iir_blocks_host::iir_blocks_host(std::span<const iir_section> sections) : sections_(sections.size()) {
  for (std::size_t each = 0; each < sections.size(); ++each) {
    make_section(sections[each], sections_[each]);
  }
}

std::int64_t iir_blocks_host::run(const float* input, float* output, std::int64_t count, std::int64_t stride,
                                  double* state) const noexcept {
  constexpr auto in_block = static_cast<std::int64_t>(steps);
  return in_block * filter_blocks(sections_, input, output, count / in_block, stride, state);
}

}  // namespace penstock

#include "kernels/invalid_samples.hpp"

#include "kernels/function_attributes.hpp"

namespace penstock {
namespace {

/// 0 if there is none.
PENSTOCK_VECTOR_CLONES unsigned invalid_bits(const float* samples, std::int64_t steps, std::int64_t stride,
                                             std::int64_t lanes) {
  unsigned any = 0;
  for (std::int64_t step = 0; step < steps; ++step, samples += stride) {
#pragma omp simd reduction(| : any)
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      any |= is_valid(samples[lane]) ? 0U : 1U;
    }
  }
  return any;
}

}  // namespace

bool any_invalid(const float* samples, std::int64_t steps, std::int64_t stride, std::int64_t lanes) noexcept {
  const bool lie_together = lanes == stride;
  return invalid_bits(samples, lie_together ? 1 : steps, stride, lie_together ? lanes * steps : lanes) != 0;
}

}  // namespace penstock

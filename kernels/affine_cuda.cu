#include <utility>

#include "kernels/affine.hpp"
#include "kernels/elementwise.cuh"

namespace penstock {
namespace {

/// On cf32 the odd components are imaginary parts.
struct scale_and_shift {
  float a;
  float even_b;
  float odd_b;

  __device__ float operator()(float x, int component) const { return fmaf(a, x, component % 2 == 0 ? even_b : odd_b); }
};

class affine_cuda final : public operation {
 public:
  explicit affine_cuda(affine_settings settings)
      : settings_{std::move(settings)}, multiprocessors_{multiprocessor_count()} {}

  [[nodiscard]] bool single_pass() const noexcept override { return true; }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    const batch_extent& extent = arguments.extent;
    const std::int64_t elements = extent.frames * settings_.input.elements(extent.leading);
    const std::int64_t count = settings_.complex_input ? 2 * elements : elements;
    const scale_and_shift function{settings_.a, settings_.b, settings_.complex_input ? 0.0F : settings_.b};
    return enqueue_map<4>(stream, multiprocessors_, static_cast<const float*>(arguments.inputs[0]),
                          static_cast<float*>(arguments.output), count, function);
  }

 private:
  const affine_settings settings_;
  const std::int64_t multiprocessors_;
};

}  // namespace

std::unique_ptr<operation> make_affine_cuda(const operation_request& request) {
  return std::make_unique<affine_cuda>(parse_affine(request.settings, request.inputs[0]));
}

}  // namespace penstock

#include <utility>

#include "kernels/elementwise.cuh"
#include "kernels/magnitude.hpp"

namespace penstock {
namespace {

struct squared_magnitude {
  __device__ float operator()(float2 z, int /*component*/) const { return fmaf(z.x, z.x, z.y * z.y); }
};

/// The squares are of parts that are divided by the larger one's power of two.
struct magnitude {
  __device__ float operator()(float2 z, int component) const {
    const unsigned larger = max(__float_as_uint(z.x) & 0x7fffffffU, __float_as_uint(z.y) & 0x7fffffffU);
    const unsigned inverse = 0x7f000000U - min(larger & 0x7f800000U, 0x7e800000U);
    const float down = __uint_as_float(inverse);
    const float up = __uint_as_float(0x7f000000U - inverse);
    return sqrtf(squared_magnitude{}(make_float2(z.x * down, z.y * down), component)) * up;
  }
};

class magnitude_cuda final : public operation {
 public:
  explicit magnitude_cuda(magnitude_settings settings)
      : settings_{std::move(settings)}, multiprocessors_{multiprocessor_count()} {}

  [[nodiscard]] bool single_pass() const noexcept override { return true; }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    const batch_extent& extent = arguments.extent;
    const std::int64_t count = extent.frames * settings_.input.elements(extent.leading);
    const auto* const in = static_cast<const float2*>(arguments.inputs[0]);
    auto* const out = static_cast<float*>(arguments.output);
    return settings_.squared ? enqueue_map<2>(stream, multiprocessors_, in, out, count, squared_magnitude{})
                             : enqueue_map<2>(stream, multiprocessors_, in, out, count, magnitude{});
  }

 private:
  const magnitude_settings settings_;
  const std::int64_t multiprocessors_;
};

}  // namespace

std::unique_ptr<operation> make_magnitude_cuda(const operation_request& request) {
  return std::make_unique<magnitude_cuda>(parse_magnitude(request.settings, request.inputs[0]));
}

}  // namespace penstock

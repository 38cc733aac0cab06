#include <utility>

#include "kernels/elementwise.cuh"
#include "kernels/magnitude.hpp"

namespace penstock {
namespace {

struct squared_magnitude {
  __device__ float operator()(float2 z, int /*component*/) const { return fmaf(z.x, z.x, z.y * z.y); }
};

struct magnitude {
  __device__ float operator()(float2 z, int component) const { return sqrtf(squared_magnitude{}(z, component)); }
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

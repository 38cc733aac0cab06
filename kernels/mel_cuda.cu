#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "kernels/launch.cuh"
#include "kernels/mel.hpp"

namespace penstock {
namespace {

/// A thread sums one triangle of one row.
__global__ void __launch_bounds__(block_threads)
    sum_triangles(const float* __restrict__ input, const mel_settings::triangle* __restrict__ triangles,
                  const float* __restrict__ weights, float* __restrict__ output, std::int64_t bins, std::int64_t count,
                  std::int64_t sums) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * block_threads;
  for (std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * block_threads + threadIdx.x; at < sums; at += stride) {
    const std::int64_t row = at / count;
    const mel_settings::triangle each = triangles[at - row * count];
    const float* const from = input + row * bins + each.first;
    const float* const by = weights + each.offset;
    double sum = 0;
    for (std::int32_t bin = 0; bin < each.count; ++bin) {
      sum += static_cast<double>(by[bin]) * static_cast<double>(from[bin]);
    }
    output[at] = static_cast<float>(sum);
  }
}

class mel_cuda final : public operation {
 public:
  explicit mel_cuda(mel_settings settings)
      : settings_{std::move(settings)},
        multiprocessors_{multiprocessor_count()},
        triangles_{std::span<const mel_settings::triangle>{settings_.triangles}},
        weights_{std::span<const float>{padded(settings_.weights)}} {}

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    const std::int64_t count = settings_.output.shape.back();
    const std::int64_t sums = settings_.rows.count(arguments.extent) * count;
    if (sums <= 0) {
      return {};
    }
    const dim3 grid = grid_of(divide_up(sums, block_threads), most_blocks(multiprocessors_));
    return launch(stream, grid, dim3(block_threads), &sum_triangles, static_cast<const float*>(arguments.inputs[0]),
                  triangles_.data(), weights_.data(), static_cast<float*>(arguments.output),
                  settings_.input.shape.back(), count, sums);
  }

 private:
  /// A table on the device has at least one number.
  [[nodiscard]] static std::vector<float> padded(std::vector<float> weights) {
    weights.push_back(0.0F);
    return weights;
  }

  const mel_settings settings_;
  const std::int64_t multiprocessors_;
  const device_array<mel_settings::triangle> triangles_;
  const device_array<float> weights_;
};

}  // namespace

std::unique_ptr<operation> make_mel_cuda(const operation_request& request) {
  return std::make_unique<mel_cuda>(parse_mel(request.settings, request.inputs[0]));
}

}  // namespace penstock

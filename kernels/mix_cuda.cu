#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "kernels/launch.cuh"
#include "kernels/mix.hpp"

namespace penstock {
namespace {

__device__ __forceinline__ float2 mixed(float x, float re, float im) {
  return {re * x, im * x};
}
__device__ __forceinline__ float2 mixed(float2 x, float re, float im) {
  return {re * x.x - im * x.y, re * x.y + im * x.x};
}

/// Rows of the grid take frames in turn; the blocks of a row take elements.
template <class In>
__global__ void __launch_bounds__(block_threads)
    mix_elements(const In* __restrict__ input, const session_frame* __restrict__ table, std::int64_t frames,
                 std::int64_t pitch, std::int64_t channels, oscillator_step step, std::uint64_t phase,
                 float2* __restrict__ output) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * block_threads;
  for (std::int64_t index = blockIdx.y; index < frames; index += gridDim.y) {
    const session_frame& frame = table[index];
    const std::int64_t count = frame.steps * channels;
    for (std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * block_threads + threadIdx.x; at < count;
         at += stride) {
      const std::int64_t n = frame.position + (channels == 1 ? at : at / channels);
      const std::uint64_t cycles = oscillator_phase(step, phase, static_cast<std::uint64_t>(n));
      // Half cycles, -1 to 1.
      const float turned = __ll2float_rn(static_cast<std::int64_t>(cycles)) * 0x1p-63F;
      float re = 0.0F;
      float im = 0.0F;
      sincospif(turned, &im, &re);
      output[index * pitch + at] = mixed(input[index * pitch + at], re, im);
    }
  }
}

class mix_cuda final : public operation {
 public:
  explicit mix_cuda(mix_settings settings) : settings_{std::move(settings)}, multiprocessors_{multiprocessor_count()} {}

  [[nodiscard]] std::size_t state_bytes() const noexcept override { return mix_settings::state_bytes; }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    return settings_.complex_input ? mix<float2>(stream, arguments) : mix<float>(stream, arguments);
  }

 private:
  template <class In>
  fault mix(void* stream, const operation_arguments& arguments) noexcept {
    const batch_extent& extent = arguments.extent;
    if (extent.frames <= 0) {
      return {};
    }
    const std::int64_t pitch = settings_.input.elements(extent.leading);
    const std::int64_t rows = std::min<std::int64_t>(extent.frames, max_grid_rows);
    const std::int64_t columns = std::clamp<std::int64_t>(divide_up(pitch, block_threads), 1,
                                                          divide_up(resident_blocks(multiprocessors_) * 4, rows));
    return launch(stream, dim3(static_cast<unsigned>(columns), static_cast<unsigned>(rows)), dim3(block_threads),
                  &mix_elements<In>, static_cast<const In*>(arguments.inputs[0]), arguments.session.frames,
                  extent.frames, pitch, settings_.channels, settings_.step, settings_.phase,
                  static_cast<float2*>(arguments.output));
  }

  const mix_settings settings_;
  const std::int64_t multiprocessors_;
};

}  // namespace

std::unique_ptr<operation> make_mix_cuda(const operation_request& request) {
  return std::make_unique<mix_cuda>(parse_mix(request.settings, request.inputs[0]));
}

}  // namespace penstock

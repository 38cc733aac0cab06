#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/launch.cuh"
#include "kernels/unpack.hpp"

namespace penstock {
namespace {

__global__ void __launch_bounds__(block_threads) widen(const std::uint8_t* __restrict__ in, std::int64_t count,
                                                       bool big, bool is_signed, std::int32_t* __restrict__ out) {
  const int low = big ? 2 : 0;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += static_cast<std::int64_t>(gridDim.x) * blockDim.x) {
    const std::uint8_t* const from = in + 3 * i;
    out[i] = number_of(from[low], from[1], from[2 - low], is_signed);
  }
}

/// Copies the numbers of `bytes` bytes, each turned round for big ones.
__global__ void __launch_bounds__(block_threads) copy_numbers(const std::uint8_t* __restrict__ in, std::int64_t count,
                                                              int bytes, bool big, std::uint8_t* __restrict__ out) {
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count * bytes;
       i += static_cast<std::int64_t>(gridDim.x) * blockDim.x) {
    const std::int64_t number = i / bytes;
    const std::int64_t place = i - number * bytes;
    out[i] = in[number * bytes + (big ? bytes - 1 - place : place)];
  }
}

class unpack_cuda final : public operation {
 public:
  explicit unpack_cuda(unpack_settings settings)
      : settings_{std::move(settings)}, blocks_{resident_blocks(multiprocessor_count())} {}

  [[nodiscard]] bool single_pass() const noexcept override { return true; }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    const std::int64_t count = settings_.numbers(arguments.extent);
    if (count <= 0) {
      return {};
    }
    const auto* const in = static_cast<const std::uint8_t*>(arguments.inputs[0]);
    if (settings_.widens) {
      return launch(stream, grid_of(divide_up(count, block_threads), blocks_), dim3(block_threads), &widen, in, count,
                    settings_.big, settings_.is_signed, static_cast<std::int32_t*>(arguments.output));
    }
    return launch(stream, grid_of(divide_up(count * settings_.bytes, block_threads), blocks_), dim3(block_threads),
                  &copy_numbers, in, count, static_cast<int>(settings_.bytes), settings_.big,
                  static_cast<std::uint8_t*>(arguments.output));
  }

 private:
  const unpack_settings settings_;
  const std::int64_t blocks_;
};

}  // namespace

std::unique_ptr<operation> make_unpack_cuda(const operation_request& request) {
  return std::make_unique<unpack_cuda>(parse_unpack(request.settings, request.inputs[0]));
}

}  // namespace penstock

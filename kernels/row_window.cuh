#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "kernels/launch.cuh"
#include "kernels/pack.cuh"

namespace penstock {

[[nodiscard]] __device__ __forceinline__ float weighted(float value, float weight) {
  return weight * value;
}
[[nodiscard]] __device__ __forceinline__ float2 weighted(float2 value, float weight) {
  return make_float2(weight * value.x, weight * value.y);
}

/// output[row, k] = weights[k] · input[row, k]. A thread keeps the weights of its pack of columns and loops over rows.
/// Columns lie along x, rows along y, in grid and block.
template <int Width, class T>
__global__ void __launch_bounds__(block_threads)
    weigh_rows(const T* __restrict__ input, const float* __restrict__ weights, T* __restrict__ output,
               std::int64_t packs, std::int64_t rows) {
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column >= packs) {
    return;
  }
  const pack<float, Width> weight = load_pack<Width>(weights + column * Width);
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.y) * blockDim.y;
#pragma unroll 4
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.y) * blockDim.y + threadIdx.y; row < rows; row += stride) {
    const std::int64_t offset = (row * packs + column) * Width;
    pack<T, Width> values = load_pack<Width>(input + offset);
#pragma unroll
    for (int component = 0; component < Width; ++component) {
      values.at[component] = weighted(values.at[component], weight.at[component]);
    }
    store_pack<Width>(output + offset, values);
  }
}

template <int Width, class T>
fault enqueue_weigh_packs(void* stream, std::int64_t multiprocessors, const T* input, const float* weights, T* output,
                          std::int64_t packs, std::int64_t rows) noexcept {
  const auto across = std::min<std::int64_t>(
      static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(packs))), block_threads);
  const std::int64_t down = block_threads / across;
  const std::int64_t columns = divide_up(packs, across);
  const std::int64_t most = std::clamp<std::int64_t>(most_blocks(multiprocessors) / columns, 1, 65535);
  const dim3 grid(static_cast<unsigned>(columns), grid_of(divide_up(rows, down), most).x);
  const dim3 block(static_cast<unsigned>(across), static_cast<unsigned>(down));
  return launch(stream, grid, block, &weigh_rows<Width, T>, input, weights, output, packs, rows);
}

/// Enqueues weigh_rows over `rows` rows of `length` elements, T = float or float2; all pointers are aligned to 16
/// bytes.
template <class T>
fault enqueue_weigh_rows(void* stream, std::int64_t multiprocessors, const T* input, const float* weights, T* output,
                         std::int64_t length, std::int64_t rows) noexcept {
  constexpr int width = 16 / sizeof(T);
  if (rows <= 0) {
    return {};
  }
  // Otherwise all rows but the first would be unaligned.
  if (length % width == 0) {
    return enqueue_weigh_packs<width>(stream, multiprocessors, input, weights, output, length / width, rows);
  }
  return enqueue_weigh_packs<1>(stream, multiprocessors, input, weights, output, length, rows);
}

}  // namespace penstock

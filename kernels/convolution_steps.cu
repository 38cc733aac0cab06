#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/convolution_steps.hpp"
#include "kernels/launch.cuh"
#include "kernels/pack.cuh"

namespace penstock {
namespace {

__device__ __forceinline__ float widen(float value) {
  return value;
}
__device__ __forceinline__ float widen(__half value) {
  return __half2float(value);
}
__device__ __forceinline__ float widen(__nv_bfloat16 value) {
  return __bfloat162float(value);
}

template <class T>
__device__ __forceinline__ T narrow(float value);
template <>
__device__ __forceinline__ float narrow<float>(float value) {
  return value;
}
template <>
__device__ __forceinline__ __half narrow<__half>(float value) {
  return __float2half_rn(value);
}
template <>
__device__ __forceinline__ __nv_bfloat16 narrow<__nv_bfloat16>(float value) {
  return __float2bfloat16_rn(value);
}

template <convolution_activation Activation>
__device__ __forceinline__ float activate(float x) {
  if constexpr (Activation == convolution_activation::relu) {
    return x > 0.0F || isnan(x) ? x : 0.0F;
  } else if constexpr (Activation == convolution_activation::gelu) {
    return 0.5F * x * (1.0F + tanhf(0.7978845608F * fmaf(0.044715F * x * x, x, x)));
  } else if constexpr (Activation == convolution_activation::gelu_erf) {
    return 0.5F * x * (1.0F + erff(x * 0.7071067812F));
  } else {
    return x;
  }
}

/// y holds rows of `pixels` numbers, one for each filter of each frame. A pack lies in one row.
template <int Width, convolution_activation Activation, class T>
__global__ void __launch_bounds__(block_threads)
    finish_rows(const T* __restrict__ bias, T* __restrict__ y, std::int64_t packs, std::int64_t packs_of_row,
                std::int64_t filters) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * block_threads;
  for (std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * block_threads + threadIdx.x; at < packs;
       at += stride) {
    const std::int64_t row = packs <= 0xffffffffLL
                                 ? static_cast<std::uint32_t>(at) / static_cast<std::uint32_t>(packs_of_row)
                                 : at / packs_of_row;
    const float shift = bias == nullptr ? 0.0F : widen(bias[row % filters]);
    // Not by load_pack: the kernel writes what it reads.
    using word = typename machine_word<sizeof(pack<T, Width>)>::type;
    const word raw = reinterpret_cast<const word*>(y)[at];
    pack<T, Width> values;
    memcpy(&values, &raw, sizeof(values));
#pragma unroll
    for (int component = 0; component < Width; ++component) {
      values.at[component] = narrow<T>(activate<Activation>(widen(values.at[component]) + shift));
    }
    store_pack<Width>(y + at * Width, values);
  }
}

template <class To, class From>
__global__ void __launch_bounds__(block_threads)
    change_elements(const From* __restrict__ input, To* __restrict__ output, std::int64_t count) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * block_threads;
  for (std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * block_threads + threadIdx.x; at < count;
       at += stride) {
    output[at] = narrow<To>(widen(input[at]));
  }
}

struct rows_of_filters {
  std::int64_t frames;
  std::int64_t filters;
  std::int64_t pixels;
};

template <int Width, convolution_activation Activation, class T>
fault finish(cudaStream_t stream, const void* bias, void* y, const rows_of_filters& rows) noexcept {
  const std::int64_t packs_of_row = rows.pixels / Width;
  const std::int64_t packs = rows.frames * rows.filters * packs_of_row;
  const dim3 grid = grid_of(divide_up(packs, block_threads), std::int64_t{1} << 20U);
  finish_rows<Width, Activation><<<grid, block_threads, 0, stream>>>(static_cast<const T*>(bias), static_cast<T*>(y),
                                                                     packs, packs_of_row, rows.filters);
  return cuda_fault(cudaGetLastError());
}

template <class T, convolution_activation Activation>
fault finish(cudaStream_t stream, const void* bias, void* y, const rows_of_filters& rows) noexcept {
  constexpr int width = 16 / sizeof(T);
  const bool aligned = reinterpret_cast<std::uintptr_t>(y) % 16 == 0;
  return aligned && rows.pixels % width == 0 ? finish<width, Activation, T>(stream, bias, y, rows)
                                             : finish<1, Activation, T>(stream, bias, y, rows);
}

template <class T>
fault finish(cudaStream_t stream, convolution_activation activation, const void* bias, void* y,
             const rows_of_filters& rows) noexcept {
  switch (activation) {
    case convolution_activation::none:
      return finish<T, convolution_activation::none>(stream, bias, y, rows);
    case convolution_activation::relu:
      return finish<T, convolution_activation::relu>(stream, bias, y, rows);
    case convolution_activation::gelu:
      return finish<T, convolution_activation::gelu>(stream, bias, y, rows);
    case convolution_activation::gelu_erf:
      return finish<T, convolution_activation::gelu_erf>(stream, bias, y, rows);
  }
  return fault{"cudaErrorInvalidValue"};
}

template <class To, class From>
fault change(void* stream, const void* input, void* output, std::int64_t count) noexcept {
  const dim3 grid = grid_of(divide_up(count, block_threads), std::int64_t{1} << 20U);
  return launch(stream, grid, dim3(block_threads), &change_elements<To, From>, static_cast<const From*>(input),
                static_cast<To*>(output), count);
}

template <class From>
fault change(void* stream, element_type to, const void* input, void* output, std::int64_t count) noexcept {
  switch (to) {
    case element_type::f32:
      return change<float, From>(stream, input, output, count);
    case element_type::f16:
      return change<__half, From>(stream, input, output, count);
    case element_type::bf16:
      return change<__nv_bfloat16, From>(stream, input, output, count);
    default:
      return fault{"cudaErrorInvalidValue"};
  }
}

}  // namespace

fault add_bias_and_activate(cudaStream_t stream, element_type type, convolution_activation activation, const void* bias,
                            void* y, std::int64_t frames, std::int64_t filters, std::int64_t pixels) noexcept {
  const rows_of_filters rows{frames, filters, pixels};
  switch (type) {
    case element_type::f32:
      return finish<float>(stream, activation, bias, y, rows);
    case element_type::f16:
      return finish<__half>(stream, activation, bias, y, rows);
    case element_type::bf16:
      return finish<__nv_bfloat16>(stream, activation, bias, y, rows);
    default:
      return fault{"cudaErrorInvalidValue"};
  }
}

fault change_precision(void* stream, element_type from, element_type to, const void* input, void* output,
                       std::int64_t count) noexcept {
  switch (from) {
    case element_type::f32:
      return change<float>(stream, to, input, output, count);
    case element_type::f16:
      return change<__half>(stream, to, input, output, count);
    case element_type::bf16:
      return change<__nv_bfloat16>(stream, to, input, output, count);
    default:
      return fault{"cudaErrorInvalidValue"};
  }
}

}  // namespace penstock

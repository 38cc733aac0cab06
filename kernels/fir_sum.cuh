#pragma once

#include <type_traits>

#include <cuda_runtime.h>

namespace penstock {

/// What a product of an input and a tap is.
template <class In, class Tap>
using fir_value = std::conditional_t<std::is_same_v<In, float2> || std::is_same_v<Tap, float2>, float2, float>;

/// What sums of such products are widened to.
template <class Value>
struct fir_sum {
  using wide = double;
};
template <>
struct fir_sum<float2> {
  using wide = double2;
};

__device__ __forceinline__ void add_product(float& sum, float tap, float x) {
  sum = fmaf(tap, x, sum);
}
__device__ __forceinline__ void add_product(float2& sum, float tap, float2 x) {
  sum.x = fmaf(tap, x.x, sum.x);
  sum.y = fmaf(tap, x.y, sum.y);
}
__device__ __forceinline__ void add_product(float2& sum, float2 tap, float x) {
  sum.x = fmaf(tap.x, x, sum.x);
  sum.y = fmaf(tap.y, x, sum.y);
}
__device__ __forceinline__ void add_product(float2& sum, float2 tap, float2 x) {
  sum.x = fmaf(-tap.y, x.y, fmaf(tap.x, x.x, sum.x));
  sum.y = fmaf(tap.y, x.x, fmaf(tap.x, x.y, sum.y));
}

__device__ __forceinline__ void add(double& sum, double value) {
  sum += value;
}
__device__ __forceinline__ void add(double2& sum, double2 value) {
  sum.x += value.x;
  sum.y += value.y;
}

__device__ __forceinline__ void widen_into(double& sum, float value) {
  sum += static_cast<double>(value);
}
__device__ __forceinline__ void widen_into(double2& sum, float2 value) {
  sum.x += static_cast<double>(value.x);
  sum.y += static_cast<double>(value.y);
}

/// Adds what the warp's lane at that distance has; every lane of the warp calls it.
__device__ __forceinline__ void add_lane(double& sum, int distance) {
  sum += __shfl_xor_sync(~0U, sum, distance);
}
__device__ __forceinline__ void add_lane(double2& sum, int distance) {
  sum.x += __shfl_xor_sync(~0U, sum.x, distance);
  sum.y += __shfl_xor_sync(~0U, sum.y, distance);
}

__device__ __forceinline__ float narrow(double value) {
  return static_cast<float>(value);
}
__device__ __forceinline__ float2 narrow(double2 value) {
  return {static_cast<float>(value.x), static_cast<float>(value.y)};
}

}  // namespace penstock

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

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

struct scale_and_shift_f64 {
  double a;
  double b;

  __device__ double operator()(double x, int /*component*/) const { return fma(a, x, b); }
};

/// Of f16 and bf16: in single precision.
struct scale_and_shift_small {
  float a;
  float b;

  __device__ __half operator()(__half x, int /*component*/) const {
    return __float2half_rn(fmaf(a, __half2float(x), b));
  }
  __device__ __nv_bfloat16 operator()(__nv_bfloat16 x, int /*component*/) const {
    return __float2bfloat16_rn(fmaf(a, __bfloat162float(x), b));
  }
};

/// The function of a frame, from affine_numbers.
template <class Function>
struct tuned_function {
  const double* numbers;
  bool complex_input;

  __device__ Function operator()(std::int64_t frame) const {
    const double a = numbers[2 * frame];
    const double b = numbers[2 * frame + 1];
    if constexpr (std::is_same_v<Function, scale_and_shift_f64>) {
      return {a, b};
    } else if constexpr (std::is_same_v<Function, scale_and_shift>) {
      return {static_cast<float>(a), static_cast<float>(b), complex_input ? 0.0F : static_cast<float>(b)};
    } else {
      return {static_cast<float>(a), static_cast<float>(b)};
    }
  }
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
    const auto a = static_cast<float>(settings_.a);
    const auto b = static_cast<float>(settings_.b);
    switch (settings_.input.type) {
      case element_type::f64:
        return map<double, 2>(stream, arguments, count, scale_and_shift_f64{settings_.a, settings_.b});
      case element_type::f16:
        return map<__half, 8>(stream, arguments, count, scale_and_shift_small{a, b});
      case element_type::bf16:
        return map<__nv_bfloat16, 8>(stream, arguments, count, scale_and_shift_small{a, b});
      default:
        return map<float, 4>(stream, arguments, count, scale_and_shift{a, b, settings_.complex_input ? 0.0F : b});
    }
  }

 private:
  template <class T, int Width, class Function>
  fault map(void* stream, const operation_arguments& arguments, std::int64_t count, Function function) noexcept {
    if (arguments.numbers != nullptr) {
      return enqueue_map_frames<Width>(stream, multiprocessors_, static_cast<const T*>(arguments.inputs[0]),
                                       static_cast<T*>(arguments.output), arguments.extent.frames,
                                       count / std::max<std::int64_t>(arguments.extent.frames, 1),
                                       tuned_function<Function>{arguments.numbers, settings_.complex_input});
    }
    return enqueue_map<Width>(stream, multiprocessors_, static_cast<const T*>(arguments.inputs[0]),
                              static_cast<T*>(arguments.output), count, function);
  }

  const affine_settings settings_;
  const std::int64_t multiprocessors_;
};

}  // namespace

std::unique_ptr<operation> make_affine_cuda(const operation_request& request) {
  return std::make_unique<affine_cuda>(parse_affine(request.settings, request.inputs[0]));
}

}  // namespace penstock

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "kernels/fold.hpp"
#include "kernels/launch.cuh"
#include "kernels/pack.cuh"

namespace penstock {
namespace {

/// The inputs of one run, passed to the kernel by value.
struct fold_inputs {
  const void* at[max_fold_inputs];
  int count;
};

struct sum_of {
  __device__ float operator()(float a, float b) const { return a + b; }
};

struct product_of {
  __device__ float operator()(float a, float b) const { return a * b; }
  __device__ float2 operator()(float2 a, float2 b) const {
    return make_float2(fmaf(a.x, b.x, -(a.y * b.y)), fmaf(a.x, b.y, a.y * b.x));
  }
};

struct conjugate_product_of {
  __device__ float2 operator()(float2 a, float2 b) const { return product_of{}(a, make_float2(b.x, -b.y)); }
};

/// Folds `Width` neighbouring elements of every input.
template <int Width, class T, class Combine>
__device__ __forceinline__ void fold_pack(const fold_inputs& inputs, T* __restrict__ output, std::int64_t place,
                                          Combine combine) {
  pack<T, Width> folded = load_pack<Width>(static_cast<const T*>(inputs.at[0]) + place);
  for (int input = 1; input < inputs.count; ++input) {
    const pack<T, Width> next = load_pack<Width>(static_cast<const T*>(inputs.at[input]) + place);
#pragma unroll
    for (int component = 0; component < Width; ++component) {
      folded.at[component] = combine(folded.at[component], next.at[component]);
    }
  }
  store_pack<Width>(output + place, folded);
}

/// output[i] = the fold of inputs[…][i]: 16 bytes a thread and input, the last elements one by one.
template <class T, class Combine>
__global__ void __launch_bounds__(block_threads)
    fold_elements(const fold_inputs inputs, T* __restrict__ output, std::int64_t count, Combine combine) {
  constexpr int width = 16 / sizeof(T);
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * block_threads;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * block_threads + threadIdx.x;
  const std::int64_t packs = count / width;
  for (std::int64_t index = first; index < packs; index += stride) {
    fold_pack<width>(inputs, output, index * width, combine);
  }
  if (packs * width + first < count) {
    fold_pack<1>(inputs, output, packs * width + first, combine);
  }
}

class fold_cuda final : public operation {
 public:
  explicit fold_cuda(fold_settings settings)
      : settings_{std::move(settings)}, multiprocessors_{multiprocessor_count()} {}

  [[nodiscard]] bool single_pass() const noexcept override { return true; }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    switch (settings_.combine) {
      case fold_settings::combination::sum:
        // A sum of complex numbers is that of their parts.
        return fold<float>(stream, arguments, settings_.complex_input ? 2 : 1, sum_of{});
      case fold_settings::combination::product:
        return settings_.complex_input ? fold<float2>(stream, arguments, 1, product_of{})
                                       : fold<float>(stream, arguments, 1, product_of{});
      case fold_settings::combination::conjugate_product:
        return fold<float2>(stream, arguments, 1, conjugate_product_of{});
    }
    return fault{"cudaErrorInvalidValue"};
  }

 private:
  template <class T, class Combine>
  fault fold(void* stream, const operation_arguments& arguments, std::int64_t per_element, Combine combine) noexcept {
    if (arguments.inputs.size() > max_fold_inputs) {
      return fault{"cudaErrorInvalidValue"};
    }
    const std::int64_t count = settings_.count(arguments.extent) * per_element;
    if (count <= 0) {
      return {};
    }
    fold_inputs inputs{};
    for (const void* const input : arguments.inputs) {
      inputs.at[inputs.count++] = input;
    }
    const std::int64_t blocks = divide_up(divide_up(count, 16 / sizeof(T)), block_threads);
    return launch(stream, grid_of(blocks, most_blocks(multiprocessors_)), dim3(block_threads),
                  &fold_elements<T, Combine>, inputs, static_cast<T*>(arguments.output), count, combine);
  }

  const fold_settings settings_;
  const std::int64_t multiprocessors_;
};

__device__ __forceinline__ float constant_product(float x, float by) {
  return x * by;
}
__device__ __forceinline__ float2 constant_product(float x, float2 by) {
  return make_float2(x * by.x, x * by.y);
}
__device__ __forceinline__ float2 constant_product(float2 x, float by) {
  return make_float2(x.x * by, x.y * by);
}
__device__ __forceinline__ float2 constant_product(float2 x, float2 by) {
  return product_of{}(x, by);
}

/// A constant array on the device: element i of a batch meets at[i / run % count].
template <class By, class Index>
struct constant_array {
  const By* at;
  Index run;
  Index count;

  __device__ By of(std::int64_t element) const { return __ldg(at + static_cast<Index>(element) / run % count); }
};

/// output[i] = input[i] · constant: 16 bytes of the output a thread, the last elements one by one.
template <class In, class By, class Out, class Index>
__global__ void __launch_bounds__(block_threads)
    multiply_by(const In* __restrict__ input, constant_array<By, Index> constant, Out* __restrict__ output,
                std::int64_t count) {
  constexpr int width = 16 / sizeof(Out);
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * block_threads;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * block_threads + threadIdx.x;
  const std::int64_t packs = count / width;
  for (std::int64_t index = first; index < packs; index += stride) {
    const pack<In, width> in = load_pack<width>(input + index * width);
    pack<Out, width> out;
#pragma unroll
    for (int component = 0; component < width; ++component) {
      out.at[component] = constant_product(in.at[component], constant.of(index * width + component));
    }
    store_pack<width>(output + index * width, out);
  }
  if (const std::int64_t last = packs * width + first; last < count) {
    output[last] = constant_product(input[last], constant.of(last));
  }
}

class constant_product_cuda final : public operation {
 public:
  explicit constant_product_cuda(fold_settings settings)
      : settings_{std::move(settings)},
        multiprocessors_{multiprocessor_count()},
        constant_{std::span<const float>{settings_.constant}} {}

  [[nodiscard]] bool single_pass() const noexcept override { return true; }
  [[nodiscard]] std::size_t own_bytes() const noexcept override { return settings_.constant.size() * sizeof(float); }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    if (settings_.complex_constant) {
      return settings_.complex_input ? multiply<float2, float2, float2>(stream, arguments)
                                     : multiply<float, float2, float2>(stream, arguments);
    }
    return settings_.complex_input ? multiply<float2, float, float2>(stream, arguments)
                                   : multiply<float, float, float>(stream, arguments);
  }

 private:
  template <class In, class By, class Out>
  fault multiply(void* stream, const operation_arguments& arguments) noexcept {
    // Divisions by 32-bit numbers are several times faster.
    return settings_.count(arguments.extent) < std::int64_t{1} << 31
               ? multiply_counted<In, By, Out, std::uint32_t>(stream, arguments)
               : multiply_counted<In, By, Out, std::uint64_t>(stream, arguments);
  }

  template <class In, class By, class Out, class Index>
  fault multiply_counted(void* stream, const operation_arguments& arguments) noexcept {
    const std::int64_t count = settings_.count(arguments.extent);
    if (count <= 0) {
      return {};
    }
    constexpr std::size_t parts = sizeof(By) / sizeof(float);
    const constant_array<By, Index> constant{reinterpret_cast<const By*>(constant_.data()),
                                             static_cast<Index>(settings_.run),
                                             static_cast<Index>(settings_.constant.size() / parts)};
    const std::int64_t blocks = divide_up(divide_up(count, 16 / sizeof(Out)), block_threads);
    return launch(stream, grid_of(blocks, most_blocks(multiprocessors_)), dim3(block_threads),
                  &multiply_by<In, By, Out, Index>, static_cast<const In*>(arguments.inputs[0]), constant,
                  static_cast<Out*>(arguments.output), count);
  }

  const fold_settings settings_;
  const std::int64_t multiprocessors_;
  const device_array<float> constant_;
};

}  // namespace

std::unique_ptr<operation> make_add_cuda(const operation_request& request) {
  return std::make_unique<fold_cuda>(parse_add(request.settings, request.inputs));
}

std::unique_ptr<operation> make_multiply_cuda(const operation_request& request) {
  fold_settings settings = parse_multiply(request.settings, request.inputs);
  if (!settings.constant.empty()) {
    return std::make_unique<constant_product_cuda>(std::move(settings));
  }
  return std::make_unique<fold_cuda>(std::move(settings));
}

}  // namespace penstock

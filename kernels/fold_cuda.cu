#include <cstddef>
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
    return launch(stream, grid_of(blocks, resident_blocks(multiprocessors_)), dim3(block_threads),
                  &fold_elements<T, Combine>, inputs, static_cast<T*>(arguments.output), count, combine);
  }

  const fold_settings settings_;
  const std::int64_t multiprocessors_;
};

}  // namespace

std::unique_ptr<operation> make_add_cuda(const operation_request& request) {
  return std::make_unique<fold_cuda>(parse_add(request.settings, request.inputs));
}

std::unique_ptr<operation> make_multiply_cuda(const operation_request& request) {
  return std::make_unique<fold_cuda>(parse_multiply(request.settings, request.inputs));
}

}  // namespace penstock

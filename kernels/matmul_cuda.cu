#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/cublas.hpp"
#include "kernels/elementwise.cuh"
#include "kernels/launch.cuh"
#include "kernels/matmul.hpp"
#include "kernels/matmul_massive.hpp"

namespace penstock {
namespace {

using precision = matmul_settings::precision;
using activation_kind = matmul_settings::activation_kind;

__device__ float read(float value) {
  return value;
}
__device__ float read(__half value) {
  return __half2float(value);
}
__device__ float read(__nv_bfloat16 value) {
  return __bfloat162float(value);
}

/// One type to another, by way of f32.
template <class Out>
struct rounded_to {
  template <class In>
  __device__ Out operator()(In value, int /*component*/) const {
    if constexpr (std::is_same_v<Out, __half>) {
      return __float2half_rn(read(value));
    } else if constexpr (std::is_same_v<Out, __nv_bfloat16>) {
      return __float2bfloat16_rn(read(value));
    } else {
      return read(value);
    }
  }
};

template <class In>
fault convert(void* stream, std::int64_t multiprocessors, const void* in, element_type to, void* out,
              std::int64_t count) noexcept {
  const auto* const typed = static_cast<const In*>(in);
  switch (to) {
    case element_type::f16:
      return enqueue_map<4>(stream, multiprocessors, typed, static_cast<__half*>(out), count, rounded_to<__half>{});
    case element_type::bf16:
      return enqueue_map<4>(stream, multiprocessors, typed, static_cast<__nv_bfloat16*>(out), count,
                            rounded_to<__nv_bfloat16>{});
    default:
      return enqueue_map<4>(stream, multiprocessors, typed, static_cast<float*>(out), count, rounded_to<float>{});
  }
}

fault convert(void* stream, std::int64_t multiprocessors, element_type from, const void* in, element_type to, void* out,
              std::int64_t count) noexcept {
  switch (from) {
    case element_type::f16:
      return convert<__half>(stream, multiprocessors, in, to, out, count);
    case element_type::bf16:
      return convert<__nv_bfloat16>(stream, multiprocessors, in, to, out, count);
    default:
      return convert<float>(stream, multiprocessors, in, to, out, count);
  }
}

/// output[r, n] = activation(product[r, n] + bias[n]); the output may be the product. nullptr: no bias.
template <class Out>
__global__ void __launch_bounds__(block_threads)
    finish_product(const float* product, const float* __restrict__ bias, Out* output, std::int64_t columns,
                   std::int64_t count, activation_kind activation) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * block_threads;
  for (std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * block_threads + threadIdx.x; at < count;
       at += stride) {
    float y = product[at] + (bias == nullptr ? 0.0F : bias[at % columns]);
    if (activation == activation_kind::relu) {
      y = y < 0.0F ? 0.0F : y;
    } else if (activation == activation_kind::gelu) {
      y = 0.5F * y * (1.0F + tanhf(0.797884561F * (y + 0.044715F * y * y * y)));
    }
    output[at] = rounded_to<Out>{}(y, 0);
  }
}

template <class Out>
fault finish_into(void* stream, std::int64_t multiprocessors, const matmul_settings& settings, const float* product,
                  const float* bias, void* output, std::int64_t rows) noexcept {
  const std::int64_t count = rows * settings.columns;
  return launch(stream, grid_of(divide_up(count, block_threads), most_blocks(multiprocessors)), dim3(block_threads),
                &finish_product<Out>, product, bias, static_cast<Out*>(output), settings.columns, count,
                settings.activation);
}

/// f32, f16 or bf16 numbers of a file in device memory.
device_array<std::byte> load_numbers(const number_file& file, const char* key, element_type type) {
  constexpr std::int64_t piece = std::int64_t{4} << 20;
  const std::int64_t count = file.count();
  device_array<std::byte> loaded(static_cast<std::size_t>(count) * size_of(type));
  std::vector<float> numbers;
  std::vector<std::byte> small;
  for (std::int64_t first = 0; first < count; first += piece) {
    numbers.resize(static_cast<std::size_t>(std::min(piece, count - first)));
    read_numbers(file, key, type, first, numbers);
    const void* bytes = numbers.data();
    if (type != element_type::f32) {
      small.resize(numbers.size() * size_of(type));
      for (std::size_t at = 0; at < numbers.size(); ++at) {
        if (type == element_type::f16) {
          const __half value = __float2half_rn(numbers[at]);
          std::memcpy(small.data() + at * sizeof value, &value, sizeof value);
        } else {
          const __nv_bfloat16 value = __float2bfloat16_rn(numbers[at]);
          std::memcpy(small.data() + at * sizeof value, &value, sizeof value);
        }
      }
      bytes = small.data();
    }
    require_cuda(cudaMemcpy(loaded.data() + static_cast<std::size_t>(first) * size_of(type), bytes,
                            numbers.size() * size_of(type), cudaMemcpyHostToDevice),
                 "copy numbers to the device");
  }
  require_cuda(cudaStreamSynchronize(nullptr), "copy numbers to the device");  // other streams do not wait for it
  return loaded;
}

[[nodiscard]] constexpr std::size_t aligned(std::size_t bytes) noexcept {
  return (bytes + 255) / 256 * 256;
}

/// A product, and what cuBLASLt does of what follows it.
struct fused_product {
  element_type result;  ///< of the product
  bool finishes;        ///< bias and activation are in the product
  device_array<std::byte> bias;
  cublaslt_product product;
};

product_settings product_of(const matmul_settings& settings, std::int64_t max_rows, element_type result,
                            bool finishes) {
  const element_type factors = settings.factor_type();
  return {.m = max_rows,
          .n = settings.columns,
          .k = settings.inner,
          .a = {.type = factors, .leading = settings.inner},
          .b = {.type = factors, .leading = settings.columns},
          .c = {},
          .out = {.type = result, .leading = settings.columns},
          .tf32 = settings.compute == precision::tf32,
          .has_bias = finishes && settings.bias != nullptr,
          .activation = finishes ? static_cast<product_activation>(settings.activation) : product_activation::none,
          .repeatable = settings.repeatable};
}

/// The product gives the output's type where the factors have that too, else f32. It takes in bias and activation;
/// where cuBLASLt has no algorithm that does, as for some extents that are no multiple of 8, they follow it.
fused_product make_product(const matmul_settings& settings, std::int64_t max_rows, const void* weights) {
  const std::shared_ptr<const cublaslt_library> library = cublaslt_library::load();
  const auto make = [&](element_type result, bool finishes) {
    return fused_product{.result = result,
                         .finishes = finishes,
                         .bias = settings.bias == nullptr
                                     ? device_array<std::byte>(256)
                                     : load_numbers(*settings.bias, "bias", finishes ? result : element_type::f32),
                         .product = {library, product_of(settings, max_rows, result, finishes),
                                     cublaslt_product::buckets::powers_of_two, weights}};
  };
  const element_type result = settings.output.type == settings.factor_type() ? settings.output.type : element_type::f32;
  if (settings.bias == nullptr && settings.activation == activation_kind::none) {
    return make(result, true);
  }
  try {
    return make(result, true);
  } catch (const no_algorithm&) {
    return make(element_type::f32, false);
  }
}

/// Conversion of the input where the factors have another type → cuBLASLt → what is left: bias and activation, or a
/// conversion to the output's type. The scratch holds what is converted, and cuBLASLt's workspace.
class matmul_cuda final : public operation {
 public:
  matmul_cuda(matmul_settings settings, std::int64_t max_frames)
      : settings_{std::move(settings)},
        multiprocessors_{multiprocessor_count()},
        weights_{load_numbers(*settings_.weights, "weights", settings_.factor_type())},
        product_{make_product(settings_, settings_.max_rows(max_frames), weights_.data())} {
    const auto rows = static_cast<std::size_t>(settings_.max_rows(max_frames));
    const auto bytes = [rows](std::int64_t length, element_type type) {
      return aligned(rows * static_cast<std::size_t>(length) * size_of(type));
    };
    result_offset_ = converts_input() ? bytes(settings_.inner, settings_.factor_type()) : 0;
    workspace_offset_ = result_offset_ + (converts_result() ? bytes(settings_.columns, product_.result) : 0);
    scratch_bytes_ = workspace_offset_ + aligned(product_.product.workspace_bytes());
  }

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override { return scratch_bytes_; }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    const std::int64_t rows = settings_.rows.count(arguments.extent);
    if (rows <= 0) {
      return {};
    }
    auto* const scratch = static_cast<std::byte*>(arguments.scratch);
    const void* factors = arguments.inputs[0];
    if (converts_input()) {
      if (const fault failed = convert(stream, multiprocessors_, settings_.input.type, factors, settings_.factor_type(),
                                       scratch, rows * settings_.inner)) {
        return failed;
      }
      factors = scratch;
    }
    void* const result = converts_result() ? scratch + result_offset_ : arguments.output;
    const fault failed = kernel_queue::of(stream).enqueue([&](cudaStream_t cuda_stream) {
      return product_.product.run(cuda_stream, {.a = factors,
                                                .b = weights_.data(),
                                                .bias = product_.bias.data(),
                                                .out = result,
                                                .workspace = scratch + workspace_offset_,
                                                .rows = rows});
    });
    if (failed) {
      return failed;
    }
    if (!product_.finishes) {
      return finish(stream, static_cast<const float*>(result), arguments.output, rows);
    }
    return converts_result() ? convert(stream, multiprocessors_, product_.result, result, settings_.output.type,
                                       arguments.output, rows * settings_.columns)
                             : fault{};
  }

 private:
  [[nodiscard]] bool converts_input() const noexcept { return settings_.input.type != settings_.factor_type(); }
  [[nodiscard]] bool converts_result() const noexcept { return settings_.output.type != product_.result; }

  fault finish(void* stream, const float* result, void* output, std::int64_t rows) const noexcept {
    const auto* const bias = settings_.bias == nullptr ? nullptr : reinterpret_cast<const float*>(product_.bias.data());
    const auto finish_as = settings_.output.type == element_type::f16    ? finish_into<__half>
                           : settings_.output.type == element_type::bf16 ? finish_into<__nv_bfloat16>
                                                                         : finish_into<float>;
    return finish_as(stream, multiprocessors_, settings_, result, bias, output, rows);
  }

  const matmul_settings settings_;
  const std::int64_t multiprocessors_;
  const device_array<std::byte> weights_;
  const fused_product product_;
  std::size_t result_offset_ = 0;
  std::size_t workspace_offset_ = 0;
  std::size_t scratch_bytes_ = 0;
};

}  // namespace

fault finish_rows(void* stream, std::int64_t multiprocessors, const matmul_settings& settings, const float* bias,
                  float* out, std::int64_t rows) noexcept {
  return finish_into<float>(stream, multiprocessors, settings, out, bias, out, rows);
}

std::unique_ptr<operation> make_matmul_cuda(const operation_request& request) {
  matmul_settings settings = parse_matmul(request.settings, request.inputs[0]);
  if (settings.engine == matmul_settings::engine_kind::xt) {
    return make_matmul_xt(settings, request.max_frames);
  }
  if (settings.weights_in == matmul_settings::weights_place::host) {
    return make_matmul_streamed(settings, request.max_frames);
  }
  return std::make_unique<matmul_cuda>(std::move(settings), request.max_frames);
}

}  // namespace penstock

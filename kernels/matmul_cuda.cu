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

namespace penstock {
namespace {

using precision = matmul_settings::precision;
using activation_kind = matmul_settings::activation_kind;

/// One type to another, by way of f32.
template <class Out>
struct rounded_to {
  __device__ static float read(float value) { return value; }
  __device__ static float read(__half value) { return __half2float(value); }
  __device__ static float read(__nv_bfloat16 value) { return __bfloat162float(value); }

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
  return loaded;
}

[[nodiscard]] constexpr std::size_t aligned(std::size_t bytes) noexcept {
  return (bytes + 255) / 256 * 256;
}

/// What the product gives: the output's type where the factors have that too, else f32.
element_type result_type(const matmul_settings& settings) {
  return settings.output.type == settings.factor_type() ? settings.output.type : element_type::f32;
}

product_settings product_of(const matmul_settings& settings, std::int64_t max_rows) {
  const element_type factors = settings.factor_type();
  return {.m = max_rows,
          .n = settings.columns,
          .k = settings.inner,
          .a = {.type = factors, .leading = settings.inner},
          .b = {.type = factors, .leading = settings.columns},
          .c = {},
          .out = {.type = result_type(settings), .leading = settings.columns},
          .tf32 = settings.compute == precision::tf32,
          .has_bias = settings.bias != nullptr,
          .activation = static_cast<product_activation>(settings.activation),
          .repeatable = settings.repeatable};
}

/// Conversion of the input where the factors have another type → cuBLASLt → conversion where the output has another
/// type than the product. The scratch holds what is converted, and cuBLASLt's workspace.
class matmul_cuda final : public operation {
 public:
  matmul_cuda(matmul_settings settings, std::int64_t max_frames)
      : settings_{std::move(settings)},
        multiprocessors_{multiprocessor_count()},
        weights_{load_numbers(*settings_.weights, "weights", settings_.factor_type())},
        bias_{settings_.bias == nullptr ? device_array<std::byte>(256)
                                        : load_numbers(*settings_.bias, "bias", result_type(settings_))},
        product_{cublaslt_library::load(), product_of(settings_, settings_.max_rows(max_frames)),
                 cublaslt_product::buckets::powers_of_two, weights_.data()} {
    const auto rows = static_cast<std::size_t>(settings_.max_rows(max_frames));
    const auto bytes = [rows](std::int64_t length, element_type type) {
      return aligned(rows * static_cast<std::size_t>(length) * size_of(type));
    };
    result_offset_ = converts_input() ? bytes(settings_.inner, settings_.factor_type()) : 0;
    workspace_offset_ = result_offset_ + (converts_result() ? bytes(settings_.columns, result_type(settings_)) : 0);
    scratch_bytes_ = workspace_offset_ + aligned(product_.workspace_bytes());
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
      return product_.run(cuda_stream, {.a = factors,
                                        .b = weights_.data(),
                                        .bias = bias_.data(),
                                        .out = result,
                                        .workspace = scratch + workspace_offset_,
                                        .rows = rows});
    });
    if (failed || !converts_result()) {
      return failed;
    }
    return convert(stream, multiprocessors_, result_type(settings_), result, settings_.output.type, arguments.output,
                   rows * settings_.columns);
  }

 private:
  [[nodiscard]] bool converts_input() const noexcept { return settings_.input.type != settings_.factor_type(); }
  [[nodiscard]] bool converts_result() const noexcept { return settings_.output.type != result_type(settings_); }

  const matmul_settings settings_;
  const std::int64_t multiprocessors_;
  const device_array<std::byte> weights_;
  const device_array<std::byte> bias_;
  const cublaslt_product product_;
  std::size_t result_offset_ = 0;
  std::size_t workspace_offset_ = 0;
  std::size_t scratch_bytes_ = 0;
};

}  // namespace

std::unique_ptr<operation> make_matmul_cuda(const operation_request& request) {
  return std::make_unique<matmul_cuda>(parse_matmul(request.settings, request.inputs[0]), request.max_frames);
}

}  // namespace penstock

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <library_types.h>

#include "kernels/cublas.hpp"
#include "kernels/half.hpp"
#include "kernels/kernel_queue.hpp"
#include "kernels/matmul.hpp"
#include "tests/bench/bare_cuda.hpp"
#include "tests/bench/operators_cuda.hpp"

namespace penstock::bench {
namespace {

using numbers = std::vector<float>;
using library = cublaslt_library;

constexpr std::size_t workspace_bytes = std::size_t{32} << 20U;

void require_lt(library::result result, const char* call) {
  if (const fault failed = cublas_fault(result)) {
    throw std::runtime_error(fmt::format("{} failed: {}", call, failed.name));
  }
}

numbers numbers_of(const number_file& file) {
  numbers values(static_cast<std::size_t>(file.count()));
  file.read(0, values);
  return values;
}

bare_device_memory weights_on_device(const matmul_settings& settings) {
  const numbers values = numbers_of(*settings.weights);
  const element_type type = settings.factor_type();
  std::vector<std::byte> bytes(values.size() * size_of(type));
  for (std::size_t at = 0; at < values.size(); ++at) {
    if (type == element_type::f32) {
      std::memcpy(bytes.data() + 4 * at, &values[at], 4);
    } else {
      const std::uint16_t bits = type == element_type::f16 ? to_half(values[at]).bits : to_brain(values[at]).bits;
      std::memcpy(bytes.data() + 2 * at, &bits, 2);
    }
  }
  bare_device_memory memory = make_bare_device_memory(bytes.size());
  require(cudaMemcpy(memory.get(), bytes.data(), bytes.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
  require(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
  return memory;
}

/// yᵀ = Wᵀ · xᵀ, matrices stored by columns, as NVIDIA's samples do it.
class bare_product final : public operation {
 public:
  bare_product(const matmul_settings& settings, std::int64_t frames)
      : library_(library::load()), weights_(weights_on_device(settings)) {
    constexpr int f32 = CUDA_R_32F;
    const element_type type = settings.factor_type();
    const int kind = type == element_type::f16 ? CUDA_R_16F : type == element_type::bf16 ? CUDA_R_16BF : f32;
    constexpr int compute_f32 = 68;
    constexpr int compute_tf32 = 77;
    const auto n = static_cast<std::uint64_t>(settings.columns);
    const auto k = static_cast<std::uint64_t>(settings.inner);
    const auto m = static_cast<std::uint64_t>(settings.max_rows(frames));
    const bool tf32 = settings.compute == matmul_settings::precision::tf32;
    require_lt(library_->create_description(&product_, tf32 ? compute_tf32 : compute_f32, f32),
               "cublasLtMatmulDescCreate");
    require_lt(library_->create_layout(&w_, kind, n, k, settings.columns), "cublasLtMatrixLayoutCreate");
    require_lt(library_->create_layout(&x_, kind, k, m, settings.inner), "cublasLtMatrixLayoutCreate");
    require_lt(library_->create_layout(&y_, kind, n, m, settings.columns), "cublasLtMatrixLayoutCreate");
    choose(static_cast<std::size_t>(m) * k * size_of(type), static_cast<std::size_t>(m) * n * size_of(type));
  }
  bare_product(const bare_product&) = delete;
  bare_product& operator=(const bare_product&) = delete;
  ~bare_product() override {
    for (const library::layout each : {w_, x_, y_}) {
      library_->destroy_layout(each);
    }
    library_->destroy_description(product_);
  }

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override { return workspace_bytes; }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    return kernel_queue::of(stream).enqueue([&](cudaStream_t cuda_stream) {
      return cublas_fault(multiply(cuda_stream, arguments.inputs[0], arguments.output, arguments.scratch, fastest_));
    });
  }

 private:
  library::result multiply(cudaStream_t stream, const void* x, void* y, void* workspace,
                           const library::algorithm& algorithm) const noexcept {
    constexpr float one = 1.0F;
    constexpr float zero = 0.0F;
    return library_->multiply(library_->context, product_, &one, weights_.get(), w_, x, x_, &zero, y, y_, y, y_,
                              &algorithm, workspace, workspace_bytes, stream);
  }

  void choose(std::size_t x_bytes, std::size_t y_bytes) {
    constexpr int wanted = 8;
    constexpr int max_workspace = 1;
    library::preference preference = nullptr;
    require_lt(library_->create_preference(&preference), "cublasLtMatmulPreferenceCreate");
    require_lt(library_->set_preference(preference, max_workspace, &workspace_bytes, sizeof workspace_bytes),
               "cublasLtMatmulPreferenceSetAttribute");
    std::vector<library::candidate> found(wanted);
    int count = 0;
    require_lt(library_->find_algorithms(library_->context, product_, w_, x_, y_, y_, preference, wanted, found.data(),
                                         &count),
               "cublasLtMatmulAlgoGetHeuristic");
    library_->destroy_preference(preference);
    found.resize(static_cast<std::size_t>(count));
    const bare_device_memory x = make_bare_device_memory(x_bytes);
    const bare_device_memory y = make_bare_device_memory(y_bytes);
    const bare_device_memory workspace = make_bare_device_memory(workspace_bytes);
    const bare_stream stream = make_bare_stream();
    cudaEvent_t events[2] = {};
    for (cudaEvent_t& each : events) {
      require(cudaEventCreate(&each), "cudaEventCreate");
    }
    float best = std::numeric_limits<float>::max();
    constexpr int rounds = 5;
    for (int round = 0; round < rounds; ++round) {
      for (const library::candidate& each : found) {
        constexpr int calls = 10;
        bool works = multiply(stream.get(), x.get(), y.get(), workspace.get(), each.chosen) == 0;
        require(cudaEventRecord(events[0], stream.get()), "cudaEventRecord");
        for (int call = 0; call < calls && works; ++call) {
          works = multiply(stream.get(), x.get(), y.get(), workspace.get(), each.chosen) == 0;
        }
        require(cudaEventRecord(events[1], stream.get()), "cudaEventRecord");
        require(cudaEventSynchronize(events[1]), "cudaEventSynchronize");
        float milliseconds = 0;
        require(cudaEventElapsedTime(&milliseconds, events[0], events[1]), "cudaEventElapsedTime");
        if (works && milliseconds < best) {
          best = milliseconds;
          fastest_ = each.chosen;
        }
      }
    }
    for (const cudaEvent_t each : events) {
      static_cast<void>(cudaEventDestroy(each));
    }
    if (best == std::numeric_limits<float>::max()) {
      throw std::runtime_error("none of its algorithms works");
    }
  }

  std::shared_ptr<const library> library_;
  bare_device_memory weights_;
  library::description product_ = nullptr;
  library::layout w_ = nullptr;
  library::layout x_ = nullptr;
  library::layout y_ = nullptr;
  library::algorithm fastest_;
};

/// What the operator makes of the product.
numbers finished(const matmul_settings& settings, numbers values) {
  const numbers bias =
      settings.bias == nullptr ? numbers(static_cast<std::size_t>(settings.columns)) : numbers_of(*settings.bias);
  for (std::size_t at = 0; at < values.size(); ++at) {
    const double y = static_cast<double>(values[at]) + static_cast<double>(bias[at % bias.size()]);
    const double u = 0.7978845608028654 * (y + 0.044715 * y * y * y);
    const double active = settings.activation == matmul_settings::activation_kind::relu   ? std::max(y, 0.0)
                          : settings.activation == matmul_settings::activation_kind::gelu ? y / 2 * (1 + std::tanh(u))
                                                                                          : y;
    values[at] = static_cast<float>(active);
  }
  return values;
}

}  // namespace

std::vector<library_call> cublaslt_calls(const operator_case& subject) {
  std::vector<library_call> calls;
  if (subject.op != "matmul") {
    return calls;
  }
  const matmul_settings settings = parse_matmul(subject.settings, subject.inputs.front());
  if (settings.input.type != settings.factor_type()) {
    return calls;
  }
  // Of results that are rounded to f16 or bf16, or come of another tanh, the last places differ.
  const bool rough = settings.output.type != element_type::f32 || settings.compute != matmul_settings::precision::f32 ||
                     settings.activation == matmul_settings::activation_kind::gelu;
  calls.push_back(
      {.key = "of_cublaslt",
       .call = fmt::format("cublasLtMatmul, the fastest of eight, of {} rows", settings.max_rows(subject.frames)),
       .work = std::make_unique<bare_product>(settings, subject.frames),
       .output_bytes = subject.output_bytes(),
       .output_type = settings.output.type,
       .difference = [=](const numbers& values, const numbers& operators) {
         return difference_of(finished(settings, values), operators) / (rough ? 100 : 1);
       }});
  return calls;
}

}  // namespace penstock::bench

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>

#include <cuda_runtime_api.h>

#include "kernels/fault.hpp"
#include "kernels/tensor.hpp"

namespace penstock {

/// The cuBLASLt functions that Penstock calls, loaded at run time, so that the CUDA module loads on machines without
/// cuBLAS. Only these functions and constants are used; they are the same since cuBLAS 11.4
/// (https://docs.nvidia.com/cuda/cublas/).
///
/// Immutable once loaded, but for the handle, which several threads may use. It is of the device that was current when
/// it was loaded. The library stays loaded until the process ends.
struct cublaslt_library {
  using handle = void*;
  using result = int;
  using layout = void*;
  using description = void*;
  using preference = void*;
  /// cublasLtMatmulAlgo_t
  struct algorithm {
    std::array<std::uint64_t, 8> data{};

    bool operator==(const algorithm&) const = default;
  };
  /// cublasLtMatmulHeuristicResult_t
  struct candidate {
    algorithm chosen;
    std::size_t workspace_bytes = 0;
    result state = 0;
    float waves = 0;
    std::array<int, 4> reserved{};
  };

  cublaslt_library() = default;
  cublaslt_library(const cublaslt_library&) = delete;
  cublaslt_library& operator=(const cublaslt_library&) = delete;
  ~cublaslt_library();

  handle context = nullptr;
  result (*create)(handle*) = nullptr;
  result (*destroy)(handle) = nullptr;
  std::size_t (*get_version)() = nullptr;
  result (*create_layout)(layout*, int type, std::uint64_t rows, std::uint64_t columns, std::int64_t leading) = nullptr;
  result (*set_layout)(layout, int attribute, const void* value, std::size_t bytes) = nullptr;
  result (*destroy_layout)(layout) = nullptr;
  result (*create_description)(description*, int compute, int scale) = nullptr;
  result (*set_description)(description, int attribute, const void* value, std::size_t bytes) = nullptr;
  result (*destroy_description)(description) = nullptr;
  result (*create_preference)(preference*) = nullptr;
  result (*set_preference)(preference, int attribute, const void* value, std::size_t bytes) = nullptr;
  result (*destroy_preference)(preference) = nullptr;
  result (*find_algorithms)(handle, description, layout a, layout b, layout c, layout d, preference, int wanted,
                            candidate* found, int* count) = nullptr;
  result (*check_algorithm)(handle, description, layout a, layout b, layout c, layout d, const algorithm*,
                            candidate* checked) = nullptr;
  result (*set_algorithm)(algorithm*, int attribute, const void* value, std::size_t bytes) = nullptr;
  result (*multiply)(handle, description, const void* alpha, const void* a, layout, const void* b, layout,
                     const void* beta, const void* c, layout, void* d, layout, const algorithm*, void* workspace,
                     std::size_t workspace_bytes, cudaStream_t) = nullptr;

  /// Loads the file that PENSTOCK_CUBLASLT names, if it is set; else searches the default library path, CUDA_PATH and
  /// /usr/local/cuda; and creates the handle. Throws std::runtime_error, which says what is missing and what to
  /// install.
  [[nodiscard]] static std::shared_ptr<const cublaslt_library> load();
};

/// cuBLASLt has no algorithm for a product. what() says for which.
class no_algorithm : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The name of the error, such as "CUBLAS_STATUS_EXECUTION_FAILED", with static storage; none for success.
[[nodiscard]] inline fault cublas_fault(cublaslt_library::result result) noexcept {
  switch (result) {
    case 0:
      return {};
    case 1:
      return {"CUBLAS_STATUS_NOT_INITIALIZED"};
    case 3:
      return {"CUBLAS_STATUS_ALLOC_FAILED"};
    case 7:
      return {"CUBLAS_STATUS_INVALID_VALUE"};
    case 8:
      return {"CUBLAS_STATUS_ARCH_MISMATCH"};
    case 11:
      return {"CUBLAS_STATUS_MAPPING_ERROR"};
    case 13:
      return {"CUBLAS_STATUS_EXECUTION_FAILED"};
    case 14:
      return {"CUBLAS_STATUS_INTERNAL_ERROR"};
    case 15:
      return {"CUBLAS_STATUS_NOT_SUPPORTED"};
    case 16:
      return {"CUBLAS_STATUS_LICENSE_ERROR"};
    default:
      return {"CUBLAS_STATUS_UNKNOWN_ERROR"};
  }
}

/// What follows a product: out = activation(product + bias).
enum class product_activation : std::uint8_t {
  none,
  relu,
  gelu,  ///< its tanh form: x / 2 · (1 + tanh(√(2/π) · (x + 0.044715 · x³)))
};

/// A matrix in row-major order, as it lies in memory.
struct product_matrix {
  element_type type = element_type::f32;  ///< f32, f16, bf16 or f64
  std::int64_t leading = 0;               ///< elements between rows
  bool transposed = false;                ///< of a and b: its transpose is multiplied
  std::int64_t stride = 0;                ///< elements between the matrices of a batch; 0: all are one
};

/// out = activation(alpha · a · b + beta · c + bias): a is [m, k], b is [k, n], c and out are [m, n], bias is [n].
///
/// a and b have one type; c and out have one, theirs or f32. bias has that of out. Sums are in f32 (of f64 in f64).
struct product_settings {
  std::int64_t m = 0;  ///< at most; a run without a batch may take fewer
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t batch = 1;
  product_matrix a;
  product_matrix b;
  product_matrix c;  ///< used with beta other than 0
  product_matrix out;
  bool tf32 = false;  ///< f32 factors are rounded to TF32
  double alpha = 1;
  double beta = 0;
  bool has_bias = false;
  product_activation activation = product_activation::none;
  std::size_t max_workspace = std::size_t{32} << 20U;
  /// True: a row's result depends on that row alone, not on m nor on the row's place, and the algorithm does not depend
  /// on measurements: no split of k, and proven bitwise with random numbers while it is made.
  bool repeatable = false;
};

/// What a run reads and writes: device memory, aligned to 16 bytes.
struct product_arguments {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* c = nullptr;     ///< with beta; it may be `out`
  const void* bias = nullptr;  ///< with has_bias
  void* out = nullptr;
  void* workspace = nullptr;  ///< of workspace_bytes(), aligned to 256 bytes
  std::int64_t rows = 0;      ///< 1 to m, of a product without a batch; 0: m
};

class cublaslt_plan;

/// A product with algorithms that are chosen while it is made: for m rows, and, where `buckets` says so, for each power
/// of two below. Of the eight that cuBLASLt proposes the fastest is taken, timed on the device.
///
/// Thread: one at a time. Owns no device memory once it is made.
class cublaslt_product {
 public:
  enum class buckets { one, powers_of_two };

  /// On the current device. Allocates operands to try algorithms with, on a stream of its own, and waits for it; `b`,
  /// if it is not nullptr, is matrix b in device memory, as weights are. Throws no_algorithm and
  /// std::runtime_error.
  cublaslt_product(std::shared_ptr<const cublaslt_library> library, const product_settings& settings,
                   buckets rows = buckets::one, const void* b = nullptr);
  cublaslt_product(cublaslt_product&& other) noexcept;
  cublaslt_product(const cublaslt_product&) = delete;
  cublaslt_product& operator=(const cublaslt_product&) = delete;
  cublaslt_product& operator=(cublaslt_product&&) = delete;
  ~cublaslt_product();

  /// Bytes of workspace of a run; 0: none.
  [[nodiscard]] std::size_t workspace_bytes() const noexcept;
  /// Enqueues the product. It can be captured.
  fault run(cudaStream_t stream, const product_arguments& arguments) const noexcept;

 private:
  std::unique_ptr<cublaslt_plan> plan_;
};

}  // namespace penstock

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/fault.hpp"

namespace penstock {

/// The cuBLAS-Xt functions that Penstock calls, loaded at run time as cublaslt_library is. They are the same since
/// cuBLAS 6 (https://docs.nvidia.com/cuda/cublas/).
///
/// Immutable once loaded. The library stays loaded until the process ends.
struct cublasxt_library {
  using handle = void*;
  using result = int;

  result (*create)(handle*) = nullptr;
  result (*destroy)(handle) = nullptr;
  result (*select_devices)(handle, int count, int* devices) = nullptr;
  /// By columns: C = alpha · op(A) · op(B) + beta · C, all in host memory. Returns when C is there.
  result (*sgemm)(handle, int op_a, int op_b, std::size_t m, std::size_t n, std::size_t k, const float* alpha,
                  const float* a, std::size_t lda, const float* b, std::size_t ldb, const float* beta, float* c,
                  std::size_t ldc) = nullptr;

  /// Loads the file that PENSTOCK_CUBLAS names, if it is set; else searches the default library path, CUDA_PATH and
  /// /usr/local/cuda. Throws std::runtime_error, which says what is missing and what to install.
  [[nodiscard]] static std::shared_ptr<const cublasxt_library> load();
};

/// Products out = a · b in f32 of row-major matrices in host memory, of any size: the library takes them through the
/// GPU in tiles. Pinned memory is several times as fast.
///
/// Thread: one at a time, any. Owns a handle, which has memory on the device.
class cublasxt_product {
 public:
  /// On the current device. Throws std::runtime_error with the library's error name.
  explicit cublasxt_product(std::shared_ptr<const cublasxt_library> library);
  cublasxt_product(const cublasxt_product&) = delete;
  cublasxt_product& operator=(const cublasxt_product&) = delete;
  ~cublasxt_product();

  /// a is [m, k], b is [k, n], out is [m, n]. Returns when out is there.
  fault run(std::int64_t m, std::int64_t n, std::int64_t k, const float* a, const float* b, float* out) const noexcept;

 private:
  std::shared_ptr<const cublasxt_library> library_;
  cublasxt_library::handle handle_ = nullptr;
};

}  // namespace penstock

#pragma once

#include <memory>

#include "kernels/fault.hpp"

namespace penstock::bench {

/// The functions of NVIDIA's cuBLAS that are called bare beside our operators, with one handle. Found at run time: only
/// what is named here is relied upon; it is the same from cuBLAS 11 on (https://docs.nvidia.com/cuda/cublas/). Matrices
/// are column by column. Numbers that a call takes by address are the host's and are read before it returns.
///
/// Threads: one at a time.
class cublas {
 public:
  using context = void*;
  using status = int;

  static constexpr int plain = 0;       ///< CUBLAS_OP_N
  static constexpr int transposed = 1;  ///< CUBLAS_OP_T
  static constexpr int left = 0;        ///< CUBLAS_SIDE_LEFT
  static constexpr int on_host = 0;     ///< CUBLAS_POINTER_MODE_HOST
  static constexpr int on_device = 1;   ///< CUBLAS_POINTER_MODE_DEVICE

  /// On the current device. Looks for the library in PENSTOCK_CUBLAS (a file), then where vendor_library looks. Throws
  /// no_vendor_library when there is none, else std::runtime_error.
  cublas();
  cublas(const cublas&) = delete;
  cublas& operator=(const cublas&) = delete;
  ~cublas();

  /// cublasGetVersion: 130000 for 13.0.
  [[nodiscard]] int version() const;
  /// Makes the stream of this kernel_queue the one that calls enqueue on; nullptr: the default stream. Once for many
  /// calls, as a program with one stream does.
  fault use(void* stream) noexcept;
  [[nodiscard]] context handle() const noexcept { return handle_; }

  status (*set_pointer_mode)(context, int mode) = nullptr;
  /// C = alpha · op(A) + beta · op(B)
  status (*sgeam)(context, int op_a, int op_b, int m, int n, const float* alpha, const float* a, int lda,
                  const float* beta, const float* b, int ldb, float* c, int ldc) = nullptr;
  /// C = diag(x) · A with `left`; real, and complex.
  status (*sdgmm)(context, int side, int m, int n, const float* a, int lda, const float* x, int incx, float* c,
                  int ldc) = nullptr;
  status (*cdgmm)(context, int side, int m, int n, const void* a, int lda, const void* x, int incx, void* c,
                  int ldc) = nullptr;
  /// y = alpha · op(A) · x + beta · y, A being m × n.
  status (*sgemv)(context, int op, int m, int n, const float* alpha, const float* a, int lda, const float* x, int incx,
                  const float* beta, float* y, int incy) = nullptr;
  /// The root of the sum of squares.
  status (*snrm2)(context, int n, const float* x, int incx, float* result) = nullptr;
  /// C = alpha · op(A) · op(B) + beta · C for each of a batch, C being m × n and k what is summed over.
  status (*sgemm_batched)(context, int op_a, int op_b, int m, int n, int k, const float* alpha, const float* a, int lda,
                          long long stride_a, const float* b, int ldb, long long stride_b, const float* beta, float* c,
                          int ldc, long long stride_c, int batch) = nullptr;

 private:
  context handle_ = nullptr;
  void* stream_ = nullptr;
  status (*create_)(context*) = nullptr;
  status (*destroy_)(context) = nullptr;
  status (*get_version_)(context, int*) = nullptr;
  status (*set_stream_)(context, void*) = nullptr;
};

/// "CUBLAS_STATUS_EXECUTION_FAILED" and its like; none for success. The name has static storage.
[[nodiscard]] fault cublas_fault(cublas::status of) noexcept;

}  // namespace penstock::bench

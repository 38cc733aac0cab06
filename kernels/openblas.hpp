#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace penstock {

/// The functions of OpenBLAS that Penstock calls, opened at run time, so that the daemon runs on machines without it.
/// They are the same since OpenBLAS 0.3 (https://www.openblas.net/), built with 32-bit integers.
///
/// It computes in the calling thread alone: the daemon's workers are the parallelism. Several threads may call at once,
/// and an element of a result is summed the same way in each of them. Immutable once loaded. The library stays loaded
/// until the process ends.
struct openblas_library {
  static constexpr int row_major = 101;
  static constexpr int plain = 111;
  static constexpr int transposed = 112;
  /// More rows, columns or elements between rows than this it can't take.
  static constexpr std::int64_t max_extent = 0x7fffffff;

  /// C = alpha · op(A) · op(B) + beta · C; A is [m, k] behind its op, B [k, n], C [m, n]. `order` is row_major.
  void (*sgemm)(int order, int op_a, int op_b, int m, int n, int k, float alpha, const float* a, int lda,
                const float* b, int ldb, float beta, float* c, int ldc) = nullptr;
  void (*dgemm)(int order, int op_a, int op_b, int m, int n, int k, double alpha, const double* a, int lda,
                const double* b, int ldb, double beta, double* c, int ldc) = nullptr;
  /// y = alpha · op(A) · x + beta · y; A is [m, n].
  void (*sgemv)(int order, int op_a, int m, int n, float alpha, const float* a, int lda, const float* x, int incx,
                float beta, float* y, int incy) = nullptr;
  /// Such as "OpenBLAS 0.3.21 … SkylakeX": with what it was built, and for which processor it computes here.
  std::string version;

  /// Opens the file that PENSTOCK_OPENBLAS names, if it is set; else libopenblas.so.0. Throws std::runtime_error, which
  /// says what is missing and what to install.
  [[nodiscard]] static std::shared_ptr<const openblas_library> load();
};

}  // namespace penstock

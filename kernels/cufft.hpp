#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/fault.hpp"

namespace penstock {

/// The functions of NVIDIA's cuFFT that Penstock calls, found at run time, so that the CUDA module loads on machines
/// that have no cuFFT. Only the functions and constants named here are relied upon; they are the same from cuFFT 10
/// on (https://docs.nvidia.com/cuda/cufft/).
///
/// Immutable once loaded; the library stays loaded until the process ends.
struct cufft_library {
  static constexpr int success = 0;
  static constexpr int real_to_complex = 0x2a;
  static constexpr int complex_to_complex = 0x29;
  static constexpr int forward = -1;

  using handle = int;
  using result = int;

  result (*create)(handle*) = nullptr;
  result (*set_auto_allocation)(handle, int) = nullptr;
  result (*make_plan_many)(handle, int rank, long long* length, long long* input_extents, long long input_stride,
                           long long input_distance, long long* output_extents, long long output_stride,
                           long long output_distance, int type, long long rows, std::size_t* work_bytes) = nullptr;
  result (*get_size)(handle, std::size_t*) = nullptr;
  result (*set_stream)(handle, void* stream) = nullptr;
  result (*set_work_area)(handle, void*) = nullptr;
  result (*execute_real_to_complex)(handle, void* input, void* output) = nullptr;
  result (*execute_complex_to_complex)(handle, void* input, void* output, int direction) = nullptr;
  result (*destroy)(handle) = nullptr;
  result (*get_version)(int*) = nullptr;

  /// Looks for cuFFT in PENSTOCK_CUFFT (a file; when it is set, nowhere else), then where the loader looks, then in
  /// CUDA_PATH and in /usr/local/cuda. Throws std::runtime_error that says what is missing and what to install.
  [[nodiscard]] static std::shared_ptr<const cufft_library> load();
};

/// "CUFFT_EXEC_FAILED" and its like; none for success. The name has static storage.
[[nodiscard]] fault cufft_fault(cufft_library::result result) noexcept;

/// One forward transform of `rows` rows of `length` elements, in float32, unnormalised: complex to complex, or real to
/// the `length / 2 + 1` bins that are not redundant. Rows lie one after the other, without padding.
///
/// Threads: one at a time. It owns a cuFFT handle and no device memory besides cuFFT's own tables.
class cufft_plan {
 public:
  enum class kind { real_to_complex, complex_to_complex };

  /// On the current device. Throws std::runtime_error with cuFFT's name of what went wrong.
  cufft_plan(std::shared_ptr<const cufft_library> library, kind transform, std::int64_t length, std::int64_t rows);
  cufft_plan(cufft_plan&& other) noexcept;
  cufft_plan(const cufft_plan&) = delete;
  cufft_plan& operator=(const cufft_plan&) = delete;
  cufft_plan& operator=(cufft_plan&&) = delete;
  ~cufft_plan();

  [[nodiscard]] std::int64_t rows() const noexcept { return rows_; }
  /// Bytes that the work area of `run` needs.
  [[nodiscard]] std::size_t work_bytes() const noexcept { return work_bytes_; }
  /// Enqueues the transform on the kernel_queue's stream. A complex transform may be in place, a real one may not.
  /// `work` is device memory, aligned to 256 bytes, and is never nullptr.
  fault run(void* stream, void* work, void* input, void* output) const noexcept;

 private:
  std::shared_ptr<const cufft_library> library_;
  kind transform_;
  std::int64_t rows_;
  std::size_t work_bytes_ = 0;
  cufft_library::handle handle_ = -1;
};

}  // namespace penstock

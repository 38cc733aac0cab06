#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/fault.hpp"

namespace penstock {

/// The cuFFT functions that Penstock calls, loaded at run time, so that the CUDA module loads on machines without
/// cuFFT. Only these functions and constants are used; they are the same since cuFFT 10
/// (https://docs.nvidia.com/cuda/cufft/).
///
/// Immutable once loaded. The library stays loaded until the process ends.
struct cufft_library {
  static constexpr int success = 0;
  static constexpr int real_to_complex = 0x2a;
  static constexpr int complex_to_real = 0x2c;
  static constexpr int complex_to_complex = 0x29;
  static constexpr int forward = -1;
  static constexpr int inverse = 1;

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
  result (*execute_complex_to_real)(handle, void* input, void* output) = nullptr;
  result (*execute_complex_to_complex)(handle, void* input, void* output, int direction) = nullptr;
  result (*destroy)(handle) = nullptr;
  result (*get_version)(int*) = nullptr;

  /// Loads the file that PENSTOCK_CUFFT names, if it is set; else searches the default library path, CUDA_PATH and
  /// /usr/local/cuda. Throws std::runtime_error, which says what is missing and what to install.
  [[nodiscard]] static std::shared_ptr<const cufft_library> load();
};

/// The name of the error, such as "CUFFT_EXEC_FAILED", with static storage; none for success.
[[nodiscard]] fault cufft_fault(cufft_library::result result) noexcept;

/// One transform of `rows` rows of `length` elements, in float32, unnormalised: complex to complex in both directions,
/// real to `length / 2 + 1` bins, and these to real. Rows are contiguous, without padding.
///
/// Thread: one at a time. Owns a cuFFT handle, and no device memory other than cuFFT's tables.
class cufft_plan {
 public:
  enum class kind { real_to_complex, complex_to_real, complex_to_complex, complex_inverse };

  /// On the current device. Throws std::runtime_error with cuFFT's error name.
  cufft_plan(std::shared_ptr<const cufft_library> library, kind transform, std::int64_t length, std::int64_t rows);
  cufft_plan(cufft_plan&& other) noexcept;
  cufft_plan(const cufft_plan&) = delete;
  cufft_plan& operator=(const cufft_plan&) = delete;
  cufft_plan& operator=(cufft_plan&&) = delete;
  ~cufft_plan();

  [[nodiscard]] std::int64_t rows() const noexcept { return rows_; }
  /// Bytes of the work area of `run`.
  [[nodiscard]] std::size_t work_bytes() const noexcept { return work_bytes_; }
  /// Enqueues the transform on the kernel_queue `stream`. A complex transform may be in place, a real one may not. An
  /// input that is not the output is kept, but for that of complex_to_real.
  /// `work` is device memory, aligned to 256 bytes, never nullptr.
  fault run(void* stream, void* work, void* input, void* output) const noexcept;

 private:
  std::shared_ptr<const cufft_library> library_;
  kind transform_;
  std::int64_t rows_;
  std::size_t work_bytes_ = 0;
  cufft_library::handle handle_ = -1;
};

}  // namespace penstock

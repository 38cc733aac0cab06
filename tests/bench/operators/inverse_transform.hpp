#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/cufft.hpp"

namespace penstock::bench {

/// cuFFT's transform back of `rows` rows, unnormalised: complex to complex, or to `length` real samples. No operator
/// calls it (kernels/correlate_blocks.cuh says why); whoever uses cuFFT bare does.
///
/// Threads: one at a time.
class inverse_transform {
 public:
  /// On the current device. Throws std::runtime_error with cuFFT's name of what went wrong.
  inverse_transform(bool complex, std::int64_t length, std::int64_t rows);
  inverse_transform(const inverse_transform&) = delete;
  inverse_transform& operator=(const inverse_transform&) = delete;
  ~inverse_transform();

  [[nodiscard]] std::size_t work_bytes() const noexcept { return work_bytes_; }
  /// Enqueues it on the kernel_queue's stream. Overwrites its input. `work` is as cufft_plan::run takes it.
  fault run(void* stream, void* work, void* input, void* output) const noexcept;

 private:
  void plan(std::int64_t length, std::int64_t rows);

  std::shared_ptr<const cufft_library> library_;
  cufft_library::result (*execute_complex_to_real_)(cufft_library::handle, void* input, void* output) = nullptr;
  bool complex_;
  std::size_t work_bytes_ = 0;
  cufft_library::handle handle_ = -1;
};

}  // namespace penstock::bench

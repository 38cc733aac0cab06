#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <cuda_runtime_api.h>

#include "kernels/cublas.hpp"
#include "kernels/cudnn.hpp"
#include "kernels/strided_copy.hpp"
#include "kernels/torch_functions.hpp"

namespace penstock {

/// cuBLASLt and cuDNN of the current device, opened where a model first needs them. The models of a stage share them.
struct torch_cuda_libraries {
  std::shared_ptr<const cublaslt_library> cublas;
  std::shared_ptr<const cudnn_handle> cudnn;
};

/// Memory and mathematics of the current CUDA device, for one model: products by cuBLASLt, convolutions by cuDNN. What
/// a run that prepares chooses is kept; later runs only enqueue, and can be captured. f32 is never rounded to TF32.
///
/// Thread: one at a time.
class cuda_torch_device final : public torch_device {
 public:
  /// Throws std::runtime_error.
  explicit cuda_torch_device(std::shared_ptr<torch_cuda_libraries> libraries);
  ~cuda_torch_device() override;

  [[nodiscard]] std::int32_t type() const noexcept override;
  [[nodiscard]] std::int32_t index() const noexcept override { return device_; }
  [[nodiscard]] std::byte* allocate(std::size_t bytes) noexcept override;
  void release(std::byte* memory) noexcept override;
  fault product(torch_run& run, const torch_product& asked, std::size_t call) noexcept override;
  fault convolve(torch_run& run, const torch_convolution& asked, std::size_t call) noexcept override;
  fault copy(torch_run* run, const torch_tensor& to, const torch_tensor& from) noexcept override;
  fault fill(torch_run* run, const torch_tensor& to, double value) noexcept override;

  /// Until it gets none: a copy to one of these addresses is not made where the source has no gaps; its address is
  /// written instead. So results of a run stay where they are, in its memory.
  void take_outputs(std::span<void*> outputs) noexcept { outputs_ = outputs; }

  /// Why a call of a run that prepares failed, in words; "" if it has not, or if the fault's name is all there is.
  [[nodiscard]] const std::string& refusal() const noexcept { return refusal_; }

 private:
  /// What a call has chosen.
  struct chosen {
    std::optional<cublaslt_product> product;
    std::optional<cudnn_convolution> convolution;
  };
  class borrowed;

  [[nodiscard]] fault run_strided(torch_run* run, const strided_copy& copy) noexcept;
  template <class Make>
  [[nodiscard]] fault prepare(std::size_t call, const Make& make) noexcept;

  const std::shared_ptr<torch_cuda_libraries> libraries_;
  int device_ = 0;
  std::vector<chosen> calls_;
  std::span<void*> outputs_;
  std::string refusal_;
};

/// A function of this name for libraries that run on CUDA: ours (own_torch_function), CUDA's runtime, of which we have
/// one inside, and its driver; nullptr if there is none.
[[nodiscard]] const void* own_cuda_function(const std::string& name) noexcept;

/// Bytes of device memory that this thread has taken by cudaMalloc in functions of own_cuda_function.
[[nodiscard]] std::size_t torch_cuda_allocated() noexcept;

}  // namespace penstock

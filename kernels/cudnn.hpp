#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include <cuda_runtime_api.h>

#include "kernels/convolution.hpp"
#include "kernels/fault.hpp"

namespace penstock {

/// The cuDNN 9 functions that Penstock calls, loaded at run time, so that the CUDA module loads on machines without
/// cuDNN. It uses the backend (graph) API alone, whose numbers are the same in all of cuDNN 9
/// (https://docs.nvidia.com/deeplearning/cudnn/).
///
/// Immutable once loaded. The library stays loaded until the process ends.
struct cudnn_library {
  using handle = void*;
  using descriptor = void*;
  using status = int;

  std::size_t (*version)() = nullptr;
  const char* (*error_string)(status) = nullptr;
  void (*last_error)(char* message, std::size_t bytes) = nullptr;
  status (*create)(handle*) = nullptr;
  status (*destroy)(handle) = nullptr;
  status (*set_stream)(handle, cudaStream_t) = nullptr;
  status (*create_descriptor)(int kind, descriptor*) = nullptr;
  status (*destroy_descriptor)(descriptor) = nullptr;
  status (*finalize)(descriptor) = nullptr;
  status (*set_attribute)(descriptor, int name, int type, std::int64_t count, const void* elements) = nullptr;
  status (*get_attribute)(descriptor, int name, int type, std::int64_t most, std::int64_t* count,
                          void* elements) = nullptr;
  status (*execute)(handle, descriptor plan, descriptor pack) = nullptr;

  /// Loads the file that PENSTOCK_CUDNN names, if it is set; else searches the default library path, CUDA_PATH and
  /// /usr/local/cuda. Throws std::runtime_error, which says what is missing and what to install.
  [[nodiscard]] static std::shared_ptr<const cudnn_library> load();

  /// The name of the error, such as "CUDNN_STATUS_EXECUTION_FAILED", with static storage; none for success.
  [[nodiscard]] fault fault_of(status result) const noexcept { return {result == 0 ? nullptr : error_string(result)}; }
};

/// A cuDNN handle of the current device, for convolutions that one thread at a time runs.
class cudnn_handle {
 public:
  /// Throws std::runtime_error with cuDNN's error name.
  explicit cudnn_handle(std::shared_ptr<const cudnn_library> library);
  cudnn_handle(const cudnn_handle&) = delete;
  cudnn_handle& operator=(const cudnn_handle&) = delete;
  ~cudnn_handle();

  [[nodiscard]] const cudnn_library& library() const noexcept { return *library_; }
  [[nodiscard]] cudnn_library::handle get() const noexcept { return handle_; }

 private:
  std::shared_ptr<const cudnn_library> library_;
  cudnn_library::handle handle_ = nullptr;
};

/// What is asked of a cudnn_convolution beside its shape.
struct cudnn_convolution_settings {
  convolution_compute compute = convolution_compute::f32;
  /// Of the pointers that `run` gets, in bytes: a power of two, at least that of an element.
  std::int64_t alignment = 16;
  /// Engines that need more are not considered.
  std::size_t most_workspace = std::size_t{256} << 20U;
};

/// One convolution with its bias and activation, by the fastest of cuDNN's engines for it. Bias and activation follow
/// in a kernel of ours where no engine takes them along faster. Engines that give other bits in each run are not
/// considered.
///
/// Thread: one at a time, for all that share a handle. Owns cuDNN's descriptors, and no device memory other than what
/// cuDNN's plans hold.
class cudnn_convolution {
 public:
  /// On the current device. Runs the engines that cuDNN's heuristics offer on made-up data, in memory that it frees
  /// again, and waits for them. Throws std::runtime_error with cuDNN's error name, or if no engine computes `shape`.
  cudnn_convolution(std::shared_ptr<const cudnn_handle> handle, const convolution_shape& shape,
                    const cudnn_convolution_settings& settings);
  cudnn_convolution(cudnn_convolution&& other) noexcept;
  cudnn_convolution(const cudnn_convolution&) = delete;
  cudnn_convolution& operator=(const cudnn_convolution&) = delete;
  cudnn_convolution& operator=(cudnn_convolution&&) = delete;
  ~cudnn_convolution();

  [[nodiscard]] const convolution_shape& shape() const noexcept;
  /// Bytes of the workspace of `run`.
  [[nodiscard]] std::size_t workspace_bytes() const noexcept;
  /// Seconds that a run took on the device when the engine was chosen.
  [[nodiscard]] double seconds() const noexcept;
  /// True if cuDNN applies bias and activation itself.
  [[nodiscard]] bool fused() const noexcept;

  /// Enqueues the convolution on `stream`. All are device memory; `workspace` is aligned to 256 bytes and may be
  /// nullptr if none is needed; `bias` is nullptr without one. Pointers that were seen before cost less: it keeps what
  /// cuDNN knows of the last few.
  fault run(cudaStream_t stream, void* workspace, const void* x, const void* weights, const void* bias,
            void* y) noexcept;

 private:
  class implementation;
  std::unique_ptr<implementation> implementation_;
};

}  // namespace penstock

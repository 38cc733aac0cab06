#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include <cuda_runtime.h>

#include "kernels/launch.cuh"

namespace penstock {

/// A constant table on the current device. Filled when it is made (which waits for the copy), read by kernels only.
template <class T>
class device_array {
 public:
  /// Throws std::runtime_error.
  explicit device_array(std::span<const T> values) {
    require_cuda(cudaMalloc(&data_, values.size_bytes()), "allocate a table on the device");
    const cudaError_t status = cudaMemcpy(data_, values.data(), values.size_bytes(), cudaMemcpyHostToDevice);
    if (status != cudaSuccess) {
      cudaFree(data_);
    }
    require_cuda(status, "copy a table to the device");
  }
  device_array(device_array&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  device_array(const device_array&) = delete;
  device_array& operator=(const device_array&) = delete;
  device_array& operator=(device_array&&) = delete;
  ~device_array() { cudaFree(data_); }

  [[nodiscard]] const T* data() const noexcept { return data_; }

 private:
  T* data_ = nullptr;
};

}  // namespace penstock

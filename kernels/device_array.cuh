#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include <cuda_runtime.h>

#include "kernels/launch.cuh"

namespace penstock {

/// A table on the current device. Filled when it is made (which waits for the copy), or left as it is.
template <class T>
class device_array {
 public:
  /// Unfilled. Throws std::runtime_error.
  explicit device_array(std::size_t count) {
    require_cuda(cudaMalloc(&data_, count * sizeof(T)), "allocate a table on the device");
  }
  /// Throws std::runtime_error.
  explicit device_array(std::span<const T> values) : device_array(values.size()) {
    const cudaError_t status = cudaMemcpy(data_, values.data(), values.size_bytes(), cudaMemcpyHostToDevice);
    require_cuda(status, "copy a table to the device");
  }
  device_array(device_array&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  device_array(const device_array&) = delete;
  device_array& operator=(const device_array&) = delete;
  device_array& operator=(device_array&&) = delete;
  ~device_array() { cudaFree(data_); }

  [[nodiscard]] const T* data() const noexcept { return data_; }
  [[nodiscard]] T* data() noexcept { return data_; }

 private:
  T* data_ = nullptr;
};

}  // namespace penstock

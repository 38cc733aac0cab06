#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include <cuda_runtime.h>

#include "kernels/fault.hpp"
#include "kernels/kernel_queue.hpp"

namespace penstock {

/// Maximum threads of a block in this catalogue, and its warps.
inline constexpr int block_threads = 256;
inline constexpr int warp_threads = 32;
inline constexpr int block_warps = block_threads / warp_threads;

inline fault cuda_fault(cudaError_t status) noexcept {
  return status == cudaSuccess ? fault{} : fault{cudaGetErrorName(status)};
}

/// For compiling an operation only. Throws std::runtime_error with CUDA's error name.
inline void require_cuda(cudaError_t status, const char* action) {
  if (status != cudaSuccess) {
    throw std::runtime_error(std::string("could not ") + action + ": " + cudaGetErrorName(status));
  }
}

/// Multiprocessors of the current device. Throws std::runtime_error.
[[nodiscard]] inline std::int64_t multiprocessor_count() {
  int device = 0;
  int count = 0;
  require_cuda(cudaGetDevice(&device), "tell the current CUDA device");
  require_cuda(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device), "count the multiprocessors");
  return count;
}

/// A kernel with a grid-stride loop never needs more blocks. They fill every multiprocessor with its 2048 threads four
/// times: registers often leave room for fewer, and a second wave of a few blocks would take as long as the first.
[[nodiscard]] constexpr std::int64_t most_blocks(std::int64_t multiprocessors) noexcept {
  return 4 * multiprocessors * (2048 / block_threads);
}

[[nodiscard]] __host__ __device__ constexpr std::int64_t divide_up(std::int64_t value, std::int64_t divisor) noexcept {
  return (value + divisor - 1) / divisor;
}

/// The first power of two from `least` on, but at most `most`, which is one.
[[nodiscard]] constexpr int power_of_two(std::int64_t least, int most) noexcept {
  return static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::clamp<std::int64_t>(least, 1, most))));
}

/// Threads of a block for `work` items, one each, in whole warps.
[[nodiscard]] constexpr int threads_for(std::int64_t work) noexcept {
  return static_cast<int>(
      std::clamp<std::int64_t>(divide_up(work, warp_threads) * warp_threads, warp_threads, block_threads));
}

/// Maximum y extent of a grid.
inline constexpr std::int64_t max_grid_rows = 65535;

/// A one-dimensional grid of `work` blocks, at most `most`.
[[nodiscard]] inline dim3 grid_of(std::int64_t work, std::int64_t most) noexcept {
  return dim3(static_cast<unsigned>(std::clamp<std::int64_t>(work, 1, most)));
}

/// For compiling an operation that does not launch this kernel in every batch: loads it now, since loading it at its
/// first launch takes the lock of the context. Throws std::runtime_error.
template <class... Parameters>
void load_kernel(void (*kernel)(Parameters...)) {
  cudaFuncAttributes attributes{};
  require_cuda(cudaFuncGetAttributes(&attributes, kernel), "load a kernel");
}

/// For compiling an operation only: launches each kernel at once, on the default stream.
class immediate_queue final : public kernel_queue {
 public:
  fault add(const kernel_call& call) noexcept override {
    const fault failed = cuda_fault(cudaLaunchKernel(call.kernel, call.grid, call.block,
                                                     const_cast<void**>(call.arguments.data()), call.shared, stream()));
    if (failed) {
      static_cast<void>(cudaGetLastError());
    }
    return failed;
  }

 private:
  fault flush() noexcept override { return {}; }
  [[nodiscard]] cudaStream_t stream() const noexcept override { return nullptr; }
};

/// For compiling an operation only: a stream of its own, which never synchronizes with the default stream. Throws
/// std::runtime_error.
class private_stream {
 public:
  private_stream() {
    require_cuda(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, 0), "make a CUDA stream");
  }
  private_stream(const private_stream&) = delete;
  private_stream& operator=(const private_stream&) = delete;
  ~private_stream() { static_cast<void>(cudaStreamDestroy(stream_)); }

  [[nodiscard]] cudaStream_t get() const noexcept { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// Adds a kernel to the kernel_queue `stream`.
template <class... Parameters, class... Arguments>
fault launch(void* stream, dim3 grid, dim3 block, void (*kernel)(Parameters...), Arguments... arguments) noexcept {
  static_assert(sizeof...(Parameters) <= max_kernel_arguments);
  static_assert((sizeof(Parameters) + ... + 0) <= max_argument_bytes);
  static_assert((std::is_trivially_copyable_v<std::remove_cv_t<Parameters>> && ...));
  std::tuple<std::remove_cv_t<Parameters>...> values(static_cast<std::remove_cv_t<Parameters>>(arguments)...);
  return std::apply(
      [&](auto&... each) {
        const std::array<void*, sizeof...(Parameters)> places{&each...};
        const std::array<std::size_t, sizeof...(Parameters)> sizes{sizeof(each)...};
        return kernel_queue::of(stream).add({reinterpret_cast<const void*>(kernel), grid, block, places, sizes});
      },
      values);
}

/// Enqueues a memset of `bytes` bytes of device memory to zero.
inline fault clear(void* stream, void* memory, std::size_t bytes) noexcept {
  return kernel_queue::of(stream).enqueue([&](cudaStream_t cuda_stream) {
    const fault failed = cuda_fault(cudaMemsetAsync(memory, 0, bytes, cuda_stream));
    if (failed) {
      // Reported here, so clear it: the next check of the last error must not find it again.
      static_cast<void>(cudaGetLastError());
    }
    return failed;
  });
}

/// Copies from pageable memory to the device. cudaMemcpy alone may return before the bytes are there, and only the
/// default stream would wait for them. Throws std::runtime_error.
inline void copy_to_device(void* to, const void* from, std::size_t bytes, const char* action) {
  require_cuda(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), action);
  require_cuda(cudaStreamSynchronize(nullptr), action);
}

/// A table in memory of the current device, which holds its numbers once it is made.
template <class T>
class device_array {
 public:
  /// Unfilled. Throws std::runtime_error.
  explicit device_array(std::size_t count) {
    require_cuda(cudaMalloc(&data_, count * sizeof(T)), "allocate a table on the device");
  }
  /// Throws std::runtime_error.
  explicit device_array(std::span<const T> values) : device_array(values.size()) {
    copy_to_device(data_, values.data(), values.size_bytes(), "copy a table to the device");
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

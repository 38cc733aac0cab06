#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime_api.h>

#include "kernels/fault.hpp"

namespace penstock {

/// A copy of elements between two tensors of equal sizes in device memory, each with strides of its own.
struct strided_copy {
  static constexpr std::size_t most_extents = 8;

  struct extent {
    std::int64_t size = 1;
    std::int64_t to_stride = 0;  ///< in elements
    std::int64_t from_stride = 0;
  };

  std::byte* to = nullptr;
  const std::byte* from = nullptr;  ///< nullptr: every element becomes `value`
  std::uint64_t value = 0;          ///< of at most 8 bytes, little-endian
  std::size_t element = 4;          ///< bytes: 1, 2, 4 or 8
  std::size_t extents = 0;
  extent axis[most_extents];  // no std::array: kernels read it
};

/// Enqueues it. It can be captured.
[[nodiscard]] fault copy_strided(cudaStream_t stream, strided_copy copy) noexcept;

}  // namespace penstock

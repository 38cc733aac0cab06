#include "kernels/captured_rows.hpp"
#include "kernels/launch.cuh"

namespace penstock {
namespace {

template <class Word>
__device__ __forceinline__ void copy_words(const captured_copy& copy) {
  auto* const to = reinterpret_cast<Word*>(copy.to);
  const auto* const from = reinterpret_cast<const Word*>(copy.from);
  const std::int64_t words = copy.bytes / static_cast<std::int64_t>(sizeof(Word));
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; at < words; at += stride) {
    to[at] = from == nullptr ? Word{} : from[at];
  }
}

/// By the widest word that both ends are aligned to.
__device__ __forceinline__ void copy_bytes(const captured_copy& copy) {
  const std::uint64_t bits = reinterpret_cast<std::uintptr_t>(copy.to) | reinterpret_cast<std::uintptr_t>(copy.from) |
                             static_cast<std::uint64_t>(copy.bytes);
  if (bits % sizeof(uint4) == 0) {
    copy_words<uint4>(copy);
  } else if (bits % sizeof(unsigned) == 0) {
    copy_words<unsigned>(copy);
  } else {
    copy_words<unsigned char>(copy);
  }
}

[[nodiscard]] __device__ __forceinline__ std::int32_t copies_of(const captured_rows& rows) {
  return rows.operands + (rows.state_bytes != 0 ? 1 : 0);
}

__device__ __forceinline__ void gather_row(const captured_rows& rows, std::int32_t row, std::int32_t frame) {
  for (std::int32_t index = 0; index < copies_of(rows); ++index) {
    copy_bytes(gathered(rows, index, row, frame));
  }
}

__device__ __forceinline__ void scatter_row(const captured_rows& rows, std::int32_t row, std::int32_t frame) {
  for (std::int32_t index = 0; index < copies_of(rows); ++index) {
    copy_bytes(scattered(rows, index, row, frame));
  }
}

__global__ void __launch_bounds__(block_threads) gather(const __grid_constant__ captured_rows rows) {
  const auto row = static_cast<std::int32_t>(blockIdx.y);
  gather_row(rows, row, row < rows.frames ? rows.first + row : -1);
}

__global__ void __launch_bounds__(block_threads) scatter(const __grid_constant__ captured_rows rows) {
  const auto row = static_cast<std::int32_t>(blockIdx.y);
  if (row < rows.frames) {
    scatter_row(rows, row, rows.first + row);
  }
}

__global__ void __launch_bounds__(block_threads)
    gather_listed(const __grid_constant__ captured_rows rows, const __grid_constant__ captured_frame_list list) {
  const auto row = static_cast<std::int32_t>(blockIdx.y);
  gather_row(rows, row, row < rows.frames ? list.frame[row] : -1);
}

__global__ void __launch_bounds__(block_threads)
    scatter_listed(const __grid_constant__ captured_rows rows, const __grid_constant__ captured_frame_list list) {
  const auto row = static_cast<std::int32_t>(blockIdx.y);
  if (row < rows.frames) {
    scatter_row(rows, row, list.frame[row]);
  }
}

static_assert(sizeof(captured_rows) + sizeof(captured_frame_list) <= max_argument_bytes);

}  // namespace

captured_kernels captured_row_kernels() noexcept {
  return {reinterpret_cast<const void*>(&gather), reinterpret_cast<const void*>(&scatter),
          reinterpret_cast<const void*>(&gather_listed), reinterpret_cast<const void*>(&scatter_listed)};
}

}  // namespace penstock

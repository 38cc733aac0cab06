#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/launch.cuh"
#include "kernels/pack.cuh"

namespace penstock {

/// How a reduction over rows is divided: one warp or one block for each segment of each row.
struct row_split {
  std::int64_t length = 0;  ///< elements of a row
  std::int64_t rows = 0;
  std::int64_t segments = 1;        ///< of each row; more than 1 only when a block takes a segment
  std::int64_t segment_length = 0;  ///< the last segment may be shorter
  bool warp_per_row = false;

  [[nodiscard]] __host__ __device__ std::int64_t items() const noexcept { return rows * segments; }
};

/// Minimum length of a segment.
inline constexpr std::int64_t min_segment = 8192;

/// Maximum items of a split with several segments a row.
[[nodiscard]] constexpr std::int64_t max_segmented_items(std::int64_t multiprocessors) noexcept {
  return 6 * multiprocessors;
}

/// One warp a row for short rows, or if there are enough rows for warps to fill the device; else one block a row;
/// several blocks a row if rows are long and too few to fill the device.
[[nodiscard]] inline row_split split_rows(std::int64_t length, std::int64_t rows,
                                          std::int64_t multiprocessors) noexcept {
  row_split split{length, rows, 1, length, false};
  split.warp_per_row = length <= 512 || (length <= 4096 && rows >= 16 * multiprocessors);
  if (rows < 2 * multiprocessors && length >= 2 * min_segment) {
    const std::int64_t wanted = std::min(length / min_segment, divide_up(4 * multiprocessors, rows));
    // Segments that start at multiples of 16 elements are aligned as their row is.
    split.segment_length = divide_up(divide_up(length, wanted), 16) * 16;
    split.segments = divide_up(length, split.segment_length);
  }
  return split;
}

/// The grid of a kernel in which each group of `group_threads` threads (a warp or a block) takes items in turn.
[[nodiscard]] inline dim3 grid_of_items(const row_split& split, std::int64_t multiprocessors) noexcept {
  const std::int64_t blocks = split.warp_per_row ? divide_up(split.items(), block_warps) : split.items();
  return grid_of(blocks, most_blocks(multiprocessors));
}

/// Calls visit(element) for each of `count` elements, divided over `threads` ≥ 16 threads, of which this is number
/// `thread`. Loads are of 16 bytes, several in flight; `elements` needs only the alignment of T.
template <class T, class Visit>
__device__ __forceinline__ void visit_elements(const T* __restrict__ elements, std::int64_t count, int thread,
                                               int threads, Visit visit) {
  constexpr int width = 16 / sizeof(T);
  constexpr int in_flight = sizeof(T) >= 4 ? 4 : 2;
  const auto past = static_cast<int>(reinterpret_cast<std::uintptr_t>(elements) % 16 / sizeof(T));
  const std::int64_t head = min(static_cast<std::int64_t>((width - past) % width), count);
  if (thread < head) {
    visit(elements[thread]);
  }
  const T* body = elements + head;
  const std::int64_t packs = (count - head) / width;
  std::int64_t index = thread;
  for (; index + (in_flight - 1) * threads < packs; index += in_flight * threads) {
    pack<T, width> loaded[in_flight];
#pragma unroll
    for (int load = 0; load < in_flight; ++load) {
      loaded[load] = load_pack<width>(body + (index + load * threads) * width);
    }
#pragma unroll
    for (int load = 0; load < in_flight; ++load) {
#pragma unroll
      for (int component = 0; component < width; ++component) {
        visit(loaded[load].at[component]);
      }
    }
  }
  for (; index < packs; index += threads) {
    const pack<T, width> loaded = load_pack<width>(body + index * width);
#pragma unroll
    for (int component = 0; component < width; ++component) {
      visit(loaded.at[component]);
    }
  }
  const std::int64_t last = head + packs * width + thread;
  if (last < count) {
    visit(elements[last]);
  }
}

}  // namespace penstock

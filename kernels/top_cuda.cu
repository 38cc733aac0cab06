#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/launch.cuh"
#include "kernels/top.hpp"

namespace penstock {
namespace {

/// A value as a number in the order of the list: the larger comes first. 0 for NaN, which is no element.
[[nodiscard]] __device__ __forceinline__ unsigned ordered(float value) {
  if (isnan(value)) {
    return 0;
  }
  const unsigned bits = __float_as_uint(value == 0.0F ? 0.0F : value);  // zeros of both signs are equal
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

/// An element and its index, as a key that sorts as the list does: the larger key comes first. 0 is no element.
[[nodiscard]] __device__ __forceinline__ unsigned long long key_of(float value, std::int64_t index, bool smallest) {
  const unsigned order = ordered(smallest ? -value : value);
  return order == 0 ? 0 : static_cast<unsigned long long>(order) << 32 | (0xffffffffU - static_cast<unsigned>(index));
}

[[nodiscard]] __device__ __forceinline__ unsigned long long larger(unsigned long long a, unsigned long long b) {
  return a > b ? a : b;
}

/// The largest key of a warp, in every lane.
[[nodiscard]] __device__ __forceinline__ unsigned long long largest_of_warp(unsigned long long key) {
  for (int distance = warp_threads / 2; distance > 0; distance /= 2) {
    key = larger(key, __shfl_xor_sync(~0U, key, distance));
  }
  return key;
}

/// The largest key of a block, in every thread.
__device__ unsigned long long largest_of_block(unsigned long long key, unsigned long long (&warps)[block_warps]) {
  key = largest_of_warp(key);
  __syncthreads();
  if (threadIdx.x % warp_threads == 0) {
    warps[threadIdx.x / warp_threads] = key;
  }
  __syncthreads();
  key = warps[0];
  for (int warp = 1; warp < static_cast<int>(blockDim.x) / warp_threads; ++warp) {
    key = larger(key, warps[warp]);
  }
  return key;
}

[[nodiscard]] __device__ __forceinline__ std::int64_t index_of(unsigned long long key) {
  return 0xffffffffU - static_cast<unsigned>(key);
}

/// The largest number of a warp, in every lane.
[[nodiscard]] __device__ __forceinline__ unsigned largest_of_warp(unsigned number) {
#if __CUDA_ARCH__ >= 800
  return __reduce_max_sync(~0U, number);
#else
  for (int distance = warp_threads / 2; distance > 0; distance /= 2) {
    number = max(number, __shfl_xor_sync(~0U, number, distance));
  }
  return number;
#endif
}

/// Lists that list_few may give: of more, the candidates are seldom few.
constexpr std::int64_t most_few = 16;

/// Lists a row whose elements the lanes of a warp hold, element i in lane i % 32. A list of K has only candidates: what
/// is no less than the K-th largest of the lanes' largest. Each goes to a lane, which counts those before it. Returns
/// false if they are more than lanes. `candidates` is the warp's.
template <int held>
[[nodiscard]] __device__ __forceinline__ bool list_few(const float (&values)[held], const float* __restrict__ row,
                                                       int count, bool smallest, int (&candidates)[warp_threads],
                                                       float2* __restrict__ list) {
  const int lane = static_cast<int>(threadIdx.x) % warp_threads;
  float largest = values[0];
#pragma unroll
  for (int each = 1; each < held; ++each) {
    largest = fmaxf(largest, values[each]);
  }
  unsigned order = ordered(largest);
  float least = -INFINITY;
  for (int left = count; left > 0;) {
    const unsigned next = largest_of_warp(order);
    if (next == 0) {
      least = -INFINITY;  // fewer lanes have an element
      break;
    }
    const unsigned equal = __ballot_sync(~0U, order == next);
    least = __shfl_sync(~0U, largest, __ffs(static_cast<int>(equal)) - 1);
    left -= __popc(equal);
    order = order == next ? 0 : order;
  }
  unsigned chosen = 0;
#pragma unroll
  for (int each = 0; each < held; ++each) {
    chosen |= values[each] >= least ? 1U << each : 0U;
  }
  int through = __popc(chosen);
  const int own = through;
#pragma unroll
  for (int distance = 1; distance < warp_threads; distance *= 2) {
    const int earlier = __shfl_up_sync(~0U, through, distance);
    through += lane >= distance ? earlier : 0;
  }
  const int all = __shfl_sync(~0U, through, warp_threads - 1);
  if (all > warp_threads) {
    return false;
  }
  for (int at = through - own; chosen != 0; ++at, chosen &= chosen - 1) {
    candidates[at] = (__ffs(static_cast<int>(chosen)) - 1) * warp_threads + lane;
  }
  __syncwarp();
  const int index = lane < all ? candidates[lane] : 0;
  const float value = row[index];
  order = ordered(smallest ? -value : value);
  int rank = 0;
  for (int other = 0; other < all; ++other) {
    const unsigned its_order = __shfl_sync(~0U, order, other);
    const int its_index = __shfl_sync(~0U, index, other);
    rank += its_order > order || (its_order == order && its_index < index) ? 1 : 0;
  }
  if (lane < all && rank < count) {
    list[rank] = make_float2(static_cast<float>(index), value);
  }
  if (lane >= all && lane < count) {
    list[lane] = make_float2(-1.0F, 0.0F);
  }
  __syncwarp();
  return true;
}

/// Rows of at most `held` elements a lane: a warp takes a row, whose elements its lanes keep, and gives the list.
template <int held>
__global__ void __launch_bounds__(block_threads)
    list_rows(const float* __restrict__ input, float2* __restrict__ output, std::int64_t rows, std::int64_t length,
              std::int64_t count, bool smallest) {
  __shared__ int candidates[block_warps][warp_threads];
  const int lane = static_cast<int>(threadIdx.x) % warp_threads;
  const int warp = static_cast<int>(threadIdx.x) / warp_threads;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * block_warps;
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * block_warps + warp; row < rows; row += stride) {
    const float* const first = input + row * length;
    float2* const list = output + row * count;
    float values[held];
#pragma unroll
    for (int each = 0; each < held; ++each) {
      const int at = each * warp_threads + lane;
      const float value = at < length ? first[at] : nanf("");
      values[each] = smallest ? -value : value;
    }
    if (count <= most_few && list_few<held>(values, first, static_cast<int>(count), smallest, candidates[warp], list)) {
      continue;
    }
    float before = INFINITY;
    int before_index = -1;
    for (std::int64_t place = 0; place < count; ++place) {
      float best = nanf("");
      int best_index = 0;
#pragma unroll
      for (int each = 0; each < held; ++each) {
        const int at = each * warp_threads + lane;
        const bool is_left = values[each] < before || (values[each] == before && at > before_index);
        if (is_left && !(values[each] <= best)) {
          best = values[each];
          best_index = at;
        }
      }
      const unsigned order = ordered(best);
      const unsigned next = largest_of_warp(order);
      before_index = static_cast<int>(~largest_of_warp(order == next ? ~static_cast<unsigned>(best_index) : 0U));
      before = __shfl_sync(~0U, best, before_index % warp_threads);
      if (lane == 0) {
        list[place] =
            next == 0 ? make_float2(-1.0F, 0.0F) : make_float2(static_cast<float>(before_index), first[before_index]);
      }
    }
  }
}

/// A block takes a row or a segment of one, and goes over it once for each element of the list: the next is the largest
/// below the one before. It leaves the keys.
__global__ void __launch_bounds__(block_threads)
    list_largest(const float* __restrict__ input, unsigned long long* __restrict__ keys, std::int64_t rows,
                 std::int64_t length, std::int64_t segments, std::int64_t segment_length, std::int64_t count,
                 bool smallest) {
  __shared__ unsigned long long warps[block_warps];
  for (std::int64_t item = blockIdx.x; item < rows * segments; item += gridDim.x) {
    const std::int64_t row = item / segments;
    const std::int64_t first = (item - row * segments) * segment_length;
    const std::int64_t end = min(first + segment_length, length);
    unsigned long long before = ~0ULL;
    for (std::int64_t place = 0; place < count; ++place) {
      unsigned long long best = 0;
#pragma unroll 4
      for (std::int64_t at = first + threadIdx.x; at < end; at += blockDim.x) {
        const unsigned long long key = key_of(input[row * length + at], at, smallest);
        best = key < before ? larger(best, key) : best;
      }
      before = largest_of_block(best, warps);
      if (threadIdx.x == 0) {
        keys[item * count + place] = before;
      }
    }
  }
}

/// A block takes the keys of a row's segments, and lists their largest with the values at them.
__global__ void __launch_bounds__(block_threads)
    write_largest(const float* __restrict__ input, const unsigned long long* __restrict__ keys,
                  float* __restrict__ output, std::int64_t rows, std::int64_t length, std::int64_t segments,
                  std::int64_t count) {
  __shared__ unsigned long long warps[block_warps];
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const std::int64_t listed = segments * count;
    unsigned long long before = ~0ULL;
    for (std::int64_t place = 0; place < count; ++place) {
      unsigned long long best = 0;
      for (std::int64_t at = threadIdx.x; at < listed; at += blockDim.x) {
        const unsigned long long key = keys[row * listed + at];
        best = key < before ? larger(best, key) : best;
      }
      before = largest_of_block(best, warps);
      if (threadIdx.x == 0) {
        float* const entry = output + (row * count + place) * 2;
        entry[0] = before == 0 ? -1.0F : static_cast<float>(index_of(before));
        entry[1] = before == 0 ? 0.0F : input[row * length + index_of(before)];
      }
    }
  }
}

constexpr std::int64_t least_segment = 16384;
/// Elements of a row that a lane of list_rows keeps.
constexpr int few_held = 8;
constexpr int most_held = 32;

class top_cuda final : public operation {
 public:
  top_cuda(top_settings settings, std::int64_t max_frames, std::int64_t longest)
      : settings_{std::move(settings)},
        multiprocessors_{multiprocessor_count()},
        max_keys_{(settings_.rows.count({max_frames, longest}) + 4 * multiprocessors_) * settings_.count} {}

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override {
    return static_cast<std::size_t>(max_keys_) * sizeof(unsigned long long);
  }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    const std::int64_t rows = settings_.rows.count(arguments.extent);
    const std::int64_t length = settings_.rows.length(arguments.extent);
    if (rows <= 0) {
      return {};
    }
    if (length <= most_held * warp_threads && rows >= multiprocessors_) {
      auto* const kernel = length <= few_held * warp_threads ? &list_rows<few_held> : &list_rows<most_held>;
      return launch(stream, grid_of(divide_up(rows, block_warps), most_blocks(multiprocessors_)), dim3(block_threads),
                    kernel, static_cast<const float*>(arguments.inputs[0]), static_cast<float2*>(arguments.output),
                    rows, length, settings_.count, settings_.smallest);
    }
    // Segments of all rows: at most 4 a multiprocessor more than rows.
    const std::int64_t wanted =
        std::max<std::int64_t>(std::min(length / least_segment, 4 * multiprocessors_ / rows), 1);
    const std::int64_t segment_length = std::max<std::int64_t>(divide_up(length, wanted), 1);
    const std::int64_t segments = std::max<std::int64_t>(divide_up(length, segment_length), 1);
    const auto* const input = static_cast<const float*>(arguments.inputs[0]);
    auto* const keys = static_cast<unsigned long long*>(arguments.scratch);
    if (const fault failed = launch(stream, grid_of(rows * segments, most_blocks(multiprocessors_)),
                                    dim3(threads_for(segment_length)), &list_largest, input, keys, rows, length,
                                    segments, segment_length, settings_.count, settings_.smallest)) {
      return failed;
    }
    return launch(stream, grid_of(rows, most_blocks(multiprocessors_)), dim3(threads_for(segments * settings_.count)),
                  &write_largest, input, static_cast<const unsigned long long*>(keys),
                  static_cast<float*>(arguments.output), rows, length, segments, settings_.count);
  }

 private:
  const top_settings settings_;
  const std::int64_t multiprocessors_;
  const std::int64_t max_keys_;
};

}  // namespace

std::unique_ptr<operation> make_top_cuda(const operation_request& request) {
  return std::make_unique<top_cuda>(parse_top(request.settings, request.inputs[0]), request.max_frames,
                                    request.inputs[0].shape.front());
}

}  // namespace penstock

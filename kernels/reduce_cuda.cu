#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "kernels/launch.cuh"
#include "kernels/reduce.hpp"

namespace penstock {
namespace {

using function = reduce_settings::function;

/// What a thread has gathered of a row: the second number is of imaginary parts.
struct gathered {
  double first;
  double second;
};

struct take_sum {
  static constexpr double start = 0.0;
  static __device__ void take(gathered& all, float value) { all.first += static_cast<double>(value); }
  static __device__ void take(gathered& all, float2 value) {
    all.first += static_cast<double>(value.x);
    all.second += static_cast<double>(value.y);
  }
  static __device__ void merge(gathered& all, const gathered& other) {
    all.first += other.first;
    all.second += other.second;
  }
};

struct take_squares {
  static constexpr double start = 0.0;
  static __device__ void take(gathered& all, float value) {
    all.first = fma(static_cast<double>(value), static_cast<double>(value), all.first);
  }
  static __device__ void take(gathered& all, float2 value) {
    take(all, value.x);
    take(all, value.y);
  }
  static __device__ void merge(gathered& all, const gathered& other) { all.first += other.first; }
};

struct take_max {
  static constexpr double start = -std::numeric_limits<double>::infinity();
  static __device__ void take(gathered& all, float value) { merge(all, {static_cast<double>(value), 0.0}); }
  static __device__ void merge(gathered& all, const gathered& other) {
    // A NaN comes in by the second condition, and stays.
    all.first = other.first > all.first || isnan(other.first) ? other.first : all.first;
  }
};

struct take_min {
  static constexpr double start = std::numeric_limits<double>::infinity();
  static __device__ void take(gathered& all, float value) { merge(all, {static_cast<double>(value), 0.0}); }
  static __device__ void merge(gathered& all, const gathered& other) {
    all.first = other.first < all.first || isnan(other.first) ? other.first : all.first;
  }
};

/// A block takes `lanes` rows beside each other of `outers` outer ones, with `places` threads along each.
struct reduce_shape {
  std::int64_t outer = 0;
  std::int64_t length = 0;
  std::int64_t inner = 1;
  int lanes = 1;
  int places = 1;
  int outers = 1;
  std::int64_t tiles_across = 1;  ///< of `lanes`
  std::int64_t tiles = 1;         ///< in all
  std::int64_t segments = 1;      ///< of each row; each is a block's
  std::int64_t segment_length = 0;
};

/// How a result is made of what was gathered.
struct finish {
  double scale = 1.0;
  bool root = false;
  bool complex = false;

  __device__ void write(const gathered& all, std::int64_t at, float* __restrict__ output) const {
    if (complex) {
      output[2 * at] = static_cast<float>(all.first * scale);
      output[2 * at + 1] = static_cast<float>(all.second * scale);
    } else {
      output[at] = static_cast<float>(root ? sqrt(all.first * scale) : all.first * scale);
    }
  }
};

template <class Take, class T>
__global__ void __launch_bounds__(block_threads)
    reduce_rows(const T* __restrict__ input, reduce_shape shape, finish last, gathered* __restrict__ parts,
                float* __restrict__ output) {
  __shared__ gathered shared[block_threads];
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % shape.lanes;
  const int place = thread / shape.lanes % shape.places;
  const int group = thread / (shape.lanes * shape.places);
  for (std::int64_t item = blockIdx.x; item < shape.tiles * shape.segments; item += gridDim.x) {
    const std::int64_t tile = item / shape.segments;
    const std::int64_t segment = item - tile * shape.segments;
    const std::int64_t down = tile / shape.tiles_across;
    const std::int64_t column = (tile - down * shape.tiles_across) * shape.lanes + lane;
    const std::int64_t row = down * shape.outers + group;
    const bool has_row = row < shape.outer && column < shape.inner;
    gathered all{Take::start, 0.0};
    if (has_row) {
      const T* const first = input + row * shape.length * shape.inner + column;
      const std::int64_t end = min((segment + 1) * shape.segment_length, shape.length);
#pragma unroll 4
      for (std::int64_t at = segment * shape.segment_length + place; at < end; at += shape.places) {
        Take::take(all, first[at * shape.inner]);
      }
    }
    shared[thread] = all;
    for (int half = shape.places / 2; half > 0; half /= 2) {
      __syncthreads();
      if (place < half) {
        Take::merge(shared[thread], shared[thread + half * shape.lanes]);
      }
    }
    if (has_row && place == 0) {
      const std::int64_t result = row * shape.inner + column;
      if (shape.segments == 1) {
        last.write(shared[thread], result, output);
      } else {
        parts[result * shape.segments + segment] = shared[thread];
      }
    }
    __syncthreads();
  }
}

/// What all lanes of a warp have gathered, in its first.
template <class Take>
__device__ __forceinline__ gathered merge_warp(gathered all) {
  for (int distance = warp_threads / 2; distance > 0; distance /= 2) {
    Take::merge(all, {__shfl_down_sync(~0U, all.first, distance), __shfl_down_sync(~0U, all.second, distance)});
  }
  return all;
}

[[nodiscard]] __device__ __forceinline__ std::int64_t first_warp() {
  return (static_cast<std::int64_t>(blockIdx.x) * block_threads + threadIdx.x) / warp_threads;
}
[[nodiscard]] __device__ __forceinline__ std::int64_t warp_stride() {
  return static_cast<std::int64_t>(gridDim.x) * block_warps;
}

/// Rows whose elements lie together: a warp takes a row, or a segment of one.
template <class Take, class T>
__global__ void __launch_bounds__(block_threads)
    reduce_lines(const T* __restrict__ input, reduce_shape shape, finish last, gathered* __restrict__ parts,
                 float* __restrict__ output) {
  const int lane = static_cast<int>(threadIdx.x) % warp_threads;
  for (std::int64_t item = first_warp(); item < shape.outer * shape.segments; item += warp_stride()) {
    const std::int64_t row = item / shape.segments;
    const std::int64_t segment = item - row * shape.segments;
    const T* const first = input + row * shape.length;
    const std::int64_t end = min((segment + 1) * shape.segment_length, shape.length);
    gathered all{Take::start, 0.0};
#pragma unroll 8
    for (std::int64_t at = segment * shape.segment_length + lane; at < end; at += warp_threads) {
      Take::take(all, first[at]);
    }
    all = merge_warp<Take>(all);
    if (lane == 0) {
      if (shape.segments == 1) {
        last.write(all, row, output);
      } else {
        parts[item] = all;
      }
    }
  }
}

/// A warp takes a result.
template <class Take>
__global__ void __launch_bounds__(block_threads)
    join_segments(const gathered* __restrict__ parts, std::int64_t results, std::int64_t segments, finish last,
                  float* __restrict__ output) {
  const int lane = static_cast<int>(threadIdx.x) % warp_threads;
  for (std::int64_t at = first_warp(); at < results; at += warp_stride()) {
    gathered all{Take::start, 0.0};
    for (std::int64_t segment = lane; segment < segments; segment += warp_threads) {
      Take::merge(all, parts[at * segments + segment]);
    }
    all = merge_warp<Take>(all);
    if (lane == 0) {
      last.write(all, at, output);
    }
  }
}

constexpr std::int64_t least_segment = 2048;

/// The shape for warps that take rows of elements that lie together.
[[nodiscard]] reduce_shape lines_of(std::int64_t outer, std::int64_t length, std::int64_t multiprocessors) noexcept {
  const std::int64_t enough = 32 * multiprocessors;
  const std::int64_t wanted =
      std::clamp<std::int64_t>(length / least_segment, 1, std::max<std::int64_t>(enough / outer, 1));
  reduce_shape shape{.outer = outer, .length = length};
  shape.segment_length = divide_up(length, wanted);
  shape.segments = divide_up(length, shape.segment_length);
  return shape;
}

/// Rows are cut into segments if there are too few of them to fill the device. A row gets as many threads as it needs
/// for that.
[[nodiscard]] reduce_shape shape_of(std::int64_t outer, std::int64_t length, std::int64_t inner,
                                    std::int64_t multiprocessors) noexcept {
  reduce_shape shape{.outer = outer, .length = length, .inner = inner};
  shape.lanes = power_of_two(inner, warp_threads);
  const std::int64_t each = divide_up(most_blocks(multiprocessors) * block_threads, outer * inner);
  shape.places = power_of_two(std::min(divide_up(length, 4), each), block_threads / shape.lanes);
  shape.outers = block_threads / (shape.lanes * shape.places);
  shape.tiles_across = divide_up(inner, shape.lanes);
  shape.tiles = shape.tiles_across * divide_up(outer, shape.outers);
  shape.segment_length = std::max<std::int64_t>(length, 1);
  if (shape.tiles < 2 * multiprocessors && length >= 2 * least_segment) {
    const std::int64_t wanted = std::min(length / least_segment, divide_up(4 * multiprocessors, shape.tiles));
    shape.segment_length = divide_up(length, wanted);
    shape.segments = divide_up(length, shape.segment_length);
  }
  return shape;
}

class reduce_cuda final : public operation {
 public:
  explicit reduce_cuda(reduce_settings settings)
      : settings_{std::move(settings)}, multiprocessors_{multiprocessor_count()} {}

  // With segments there are fewer tiles than 2 a multiprocessor, of a warp's rows at most, and at most 4 more segments
  // a multiprocessor than tiles; rows whose elements lie together have at most 32 segments a multiprocessor.
  [[nodiscard]] std::size_t scratch_bytes() const noexcept override {
    return settings_.rows.input.shape[settings_.rows.axis] < 2 * least_segment
               ? 0
               : static_cast<std::size_t>(6 * multiprocessors_ * warp_threads) * sizeof(gathered);
  }

  [[nodiscard]] bool single_pass() const noexcept override { return settings_.rows.inner() == 1; }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    if (settings_.complex_input) {
      return settings_.squares() ? reduce<take_squares, float2>(stream, arguments)
                                 : reduce<take_sum, float2>(stream, arguments);
    }
    switch (settings_.computes) {
      case function::max:
        return reduce<take_max, float>(stream, arguments);
      case function::min:
        return reduce<take_min, float>(stream, arguments);
      case function::rms:
      case function::power:
        return reduce<take_squares, float>(stream, arguments);
      default:
        return reduce<take_sum, float>(stream, arguments);
    }
  }

 private:
  template <class Take, class T>
  fault reduce(void* stream, const operation_arguments& arguments) noexcept {
    const std::int64_t outer = settings_.rows.outer(arguments.extent);
    const std::int64_t length = settings_.rows.length(arguments.extent);
    if (outer <= 0) {
      return {};
    }
    const bool lines = settings_.rows.inner() == 1 && length >= warp_threads;
    const reduce_shape shape = lines ? lines_of(outer, length, multiprocessors_)
                                     : shape_of(outer, length, settings_.rows.inner(), multiprocessors_);
    const bool divides = settings_.computes == function::mean || settings_.squares();
    const finish last{.scale = divides ? 1.0 / static_cast<double>(length) : 1.0,
                      .root = settings_.computes == function::rms,
                      .complex = settings_.result_parts() == 2};
    auto* const parts = static_cast<gathered*>(arguments.scratch);
    auto* const output = static_cast<float*>(arguments.output);
    const std::int64_t blocks = lines ? divide_up(outer * shape.segments, block_warps) : shape.tiles * shape.segments;
    if (const fault failed = launch(stream, grid_of(blocks, most_blocks(multiprocessors_)), dim3(block_threads),
                                    lines ? &reduce_lines<Take, T> : &reduce_rows<Take, T>,
                                    static_cast<const T*>(arguments.inputs[0]), shape, last, parts, output);
        failed || shape.segments == 1) {
      return failed;
    }
    const std::int64_t results = outer * shape.inner;
    return launch(stream, grid_of(divide_up(results, block_warps), most_blocks(multiprocessors_)), dim3(block_threads),
                  &join_segments<Take>, static_cast<const gathered*>(parts), results, shape.segments, last, output);
  }

  const reduce_settings settings_;
  const std::int64_t multiprocessors_;
};

}  // namespace

std::unique_ptr<operation> make_reduce_cuda(const operation_request& request) {
  return std::make_unique<reduce_cuda>(parse_reduce(request.settings, request.inputs[0]));
}

}  // namespace penstock

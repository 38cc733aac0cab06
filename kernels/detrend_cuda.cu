#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/detrend.hpp"
#include "kernels/row_split.cuh"

namespace penstock {
namespace {

/// Sums of d = x - shift and of its products with the places n of the row, of each part.
template <int Parts>
struct trend_sums {
  double sum[Parts];
  double product[Parts];

  __device__ void clear() {
#pragma unroll
    for (int part = 0; part < Parts; ++part) {
      sum[part] = product[part] = 0.0;
    }
  }
  __device__ void merge(const trend_sums& other) {
#pragma unroll
    for (int part = 0; part < Parts; ++part) {
      sum[part] += other.sum[part];
      product[part] += other.product[part];
    }
  }
  /// The sum over each group of so many neighbouring lanes, in all of them.
  template <int Lanes>
  __device__ void merge_lanes() {
    for (int distance = Lanes / 2; distance > 0; distance /= 2) {
      trend_sums other;
#pragma unroll
      for (int part = 0; part < Parts; ++part) {
        other.sum[part] = __shfl_xor_sync(~0U, sum[part], distance);
        other.product[part] = __shfl_xor_sync(~0U, product[part], distance);
      }
      merge(other);
    }
  }
};

/// The row's first sample, as long as it is finite.
__device__ __forceinline__ double shift_of(float first) {
  return isfinite(first) ? static_cast<double>(first) : 0.0;
}

/// level + slope · n, of one part of a row.
struct trend_line {
  double level;
  double slope;
};

__device__ __forceinline__ trend_line line_of(double sum, double product, double shift, std::int64_t length,
                                              bool linear) {
  const double size = static_cast<double>(length);
  const double centre = (size - 1.0) / 2.0;
  const double slope = linear && length > 1 ? (product - sum * centre) / spread_of_places(length) : 0.0;
  return {shift + sum / size - slope * centre, slope};
}

/// One thread's share of samples first … first + count − 1, then its warp's.
template <int Parts>
__device__ __forceinline__ void gather(const float* row, std::int64_t first, std::int64_t count, int thread,
                                       int threads, trend_sums<Parts>& into) {
  into.clear();
  double shifts[Parts];
#pragma unroll
  for (int part = 0; part < Parts; ++part) {
    shifts[part] = shift_of(row[part]);
  }
#pragma unroll 4
  for (std::int64_t n = first + thread; n < first + count; n += threads) {
#pragma unroll
    for (int part = 0; part < Parts; ++part) {
      const double d = static_cast<double>(row[n * Parts + part]) - shifts[part];
      into.sum[part] += d;
      into.product[part] = fma(d, static_cast<double>(n), into.product[part]);
    }
  }
  into.template merge_lanes<warp_threads>();
}

template <int Parts>
__device__ __forceinline__ void take_off(const float* row, std::int64_t length, bool linear, std::int64_t first,
                                         std::int64_t count, int thread, int threads, const trend_sums<Parts>& sums,
                                         float* out) {
  trend_line lines[Parts];
#pragma unroll
  for (int part = 0; part < Parts; ++part) {
    lines[part] = line_of(sums.sum[part], sums.product[part], shift_of(row[part]), length, linear);
  }
#pragma unroll 4
  for (std::int64_t n = first + thread; n < first + count; n += threads) {
#pragma unroll
    for (int part = 0; part < Parts; ++part) {
      const double x = static_cast<double>(row[n * Parts + part]);
      out[n * Parts + part] = static_cast<float>(x - lines[part].level - lines[part].slope * static_cast<double>(n));
    }
  }
}

/// Rows of at most `Held` samples a thread: a block takes a row, which its threads keep from the first look to the
/// second.
template <int Parts, int Held>
__global__ void __launch_bounds__(block_threads)
    detrend_held(const float* __restrict__ input, row_split split, bool linear, float* __restrict__ output) {
  __shared__ trend_sums<Parts> warp_sums[block_warps];
  const int thread = static_cast<int>(threadIdx.x);
  pack<float, Parts> next[Held];  // of the block's next row, on their way while it works on this one
  const auto load = [&](std::int64_t row) {
#pragma unroll
    for (int each = 0; each < Held; ++each) {
      const int n = each * block_threads + thread;
      if (row < split.rows && n < split.length) {
        next[each] = load_pack<Parts>(input + (row * split.length + n) * Parts);
      }
    }
  };
  load(blockIdx.x);
  for (std::int64_t row = blockIdx.x; row < split.rows; row += gridDim.x) {
    const std::int64_t start = row * split.length * Parts;
    pack<float, Parts> x[Held];
    double shifts[Parts];
#pragma unroll
    for (int each = 0; each < Held; ++each) {
      x[each] = next[each];
    }
    load(row + gridDim.x);
#pragma unroll
    for (int part = 0; part < Parts; ++part) {
      shifts[part] = shift_of(input[start + part]);
    }
    trend_sums<Parts> sums;
    sums.clear();
#pragma unroll
    for (int each = 0; each < Held; ++each) {
      const int n = each * block_threads + thread;
      if (n < split.length) {
#pragma unroll
        for (int part = 0; part < Parts; ++part) {
          const double d = static_cast<double>(x[each].at[part]) - shifts[part];
          sums.sum[part] += d;
          sums.product[part] = fma(d, static_cast<double>(n), sums.product[part]);
        }
      }
    }
    sums.template merge_lanes<warp_threads>();
    if (thread % warp_threads == 0) {
      warp_sums[thread / warp_threads] = sums;
    }
    __syncthreads();
    sums = warp_sums[thread % block_warps];
    sums.template merge_lanes<block_warps>();
    __syncthreads();
    trend_line lines[Parts];
#pragma unroll
    for (int part = 0; part < Parts; ++part) {
      lines[part] = line_of(sums.sum[part], sums.product[part], shifts[part], split.length, linear);
    }
#pragma unroll
    for (int each = 0; each < Held; ++each) {
      const int n = each * block_threads + thread;
      if (n < split.length) {
        pack<float, Parts> rest;
#pragma unroll
        for (int part = 0; part < Parts; ++part) {
          rest.at[part] = static_cast<float>(static_cast<double>(x[each].at[part]) - lines[part].level -
                                             lines[part].slope * static_cast<double>(n));
        }
        store_pack<Parts>(output + start + n * Parts, rest);
      }
    }
  }
}

template <int Parts>
__global__ void __launch_bounds__(block_threads)
    detrend_by_warp(const float* __restrict__ input, row_split split, bool linear, float* __restrict__ output) {
  const int lane = static_cast<int>(threadIdx.x) % warp_threads;
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * block_warps;
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * block_warps + threadIdx.x / warp_threads;
       row < split.rows; row += warps) {
    const std::int64_t start = row * split.length * Parts;
    trend_sums<Parts> sums;
    gather<Parts>(input + start, 0, split.length, lane, warp_threads, sums);
    take_off<Parts>(input + start, split.length, linear, 0, split.length, lane, warp_threads, sums, output + start);
  }
}

/// A block takes a segment of a row, and writes its sums to `parts`.
template <int Parts>
__global__ void __launch_bounds__(block_threads)
    sum_segments(const float* __restrict__ input, row_split split, trend_sums<Parts>* __restrict__ parts) {
  __shared__ trend_sums<Parts> warp_sums[block_warps];
  const int thread = static_cast<int>(threadIdx.x);
  for (std::int64_t item = blockIdx.x; item < split.items(); item += gridDim.x) {
    const std::int64_t row = item / split.segments;
    const std::int64_t first = (item - row * split.segments) * split.segment_length;
    trend_sums<Parts> sums;
    gather<Parts>(input + row * split.length * Parts, first, min(split.segment_length, split.length - first), thread,
                  block_threads, sums);
    if (thread % warp_threads == 0) {
      warp_sums[thread / warp_threads] = sums;
    }
    __syncthreads();
    if (thread == 0) {
      for (int warp = 1; warp < block_warps; ++warp) {
        warp_sums[0].merge(warp_sums[warp]);
      }
      parts[item] = warp_sums[0];
    }
    __syncthreads();
  }
}

/// A block takes a segment of a row, once the sums of all of them are known.
template <int Parts>
__global__ void __launch_bounds__(block_threads)
    take_off_segments(const float* __restrict__ input, row_split split, bool linear,
                      const trend_sums<Parts>* __restrict__ parts, float* __restrict__ output) {
  __shared__ trend_sums<Parts> whole;
  const int thread = static_cast<int>(threadIdx.x);
  for (std::int64_t item = blockIdx.x; item < split.items(); item += gridDim.x) {
    const std::int64_t row = item / split.segments;
    const std::int64_t first = (item - row * split.segments) * split.segment_length;
    if (thread < warp_threads) {
      trend_sums<Parts> sums;
      sums.clear();
      for (std::int64_t segment = thread; segment < split.segments; segment += warp_threads) {
        sums.merge(parts[row * split.segments + segment]);
      }
      sums.template merge_lanes<warp_threads>();
      if (thread == 0) {
        whole = sums;
      }
    }
    __syncthreads();
    const std::int64_t start = row * split.length * Parts;
    take_off<Parts>(input + start, split.length, linear, first, min(split.segment_length, split.length - first), thread,
                    block_threads, whole, output + start);
    __syncthreads();
  }
}

class detrend_cuda final : public operation {
 public:
  detrend_cuda(detrend_settings settings, std::int64_t max_frames)
      : settings_{std::move(settings)},
        multiprocessors_{multiprocessor_count()},
        max_rows_{settings_.rows.count({.frames = max_frames, .leading = settings_.output.shape.front()})} {}

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override {
    return static_cast<std::size_t>(max_rows_ + max_segmented_items(multiprocessors_)) * sizeof(trend_sums<2>);
  }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    return settings_.parts == 1 ? detrend<1>(stream, arguments) : detrend<2>(stream, arguments);
  }

 private:
  template <int Parts>
  fault detrend(void* stream, const operation_arguments& arguments) noexcept {
    const row_split split =
        split_rows(settings_.rows.length(arguments.extent), settings_.rows.count(arguments.extent), multiprocessors_);
    if (split.rows <= 0 || split.length <= 0) {
      return {};
    }
    const auto* const in = static_cast<const float*>(arguments.inputs[0]);
    auto* const out = static_cast<float*>(arguments.output);
    const dim3 grid = grid_of_items(split, multiprocessors_);
    if (split.segments == 1 && split.length > 2 * block_threads && split.length <= 8 * block_threads) {
      auto* const kernel = split.length <= 4 * block_threads ? &detrend_held<Parts, 4> : &detrend_held<Parts, 8>;
      return launch(stream, grid_of(split.rows, most_blocks(multiprocessors_)), dim3(block_threads), kernel, in, split,
                    settings_.linear, out);
    }
    if (split.warp_per_row) {
      return launch(stream, grid, dim3(block_threads), &detrend_by_warp<Parts>, in, split, settings_.linear, out);
    }
    auto* const parts = static_cast<trend_sums<Parts>*>(arguments.scratch);
    if (const fault failed = launch(stream, grid, dim3(block_threads), &sum_segments<Parts>, in, split, parts)) {
      return failed;
    }
    return launch(stream, grid, dim3(block_threads), &take_off_segments<Parts>, in, split, settings_.linear, parts,
                  out);
  }

  const detrend_settings settings_;
  const std::int64_t multiprocessors_;
  const std::int64_t max_rows_;  ///< of a batch
};

}  // namespace

std::unique_ptr<operation> make_detrend_cuda(const operation_request& request) {
  return std::make_unique<detrend_cuda>(parse_detrend(request.settings, request.inputs[0]), request.max_frames);
}

}  // namespace penstock

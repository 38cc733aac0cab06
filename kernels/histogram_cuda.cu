#include <cstddef>
#include <utility>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "kernels/histogram.hpp"
#include "kernels/row_split.cuh"

namespace penstock {
namespace {

constexpr int bins_per_part = static_cast<int>(histogram_bins);
static_assert(bins_per_part == block_threads, "each thread of a block sums one bin of the block's warps");

/// The bin of one value, -1 for none. The arithmetic is the host's, operation for operation.
struct bin_of {
  double low;
  double width;
  double exact_scale;

  __device__ __forceinline__ int operator()(unsigned char x) const { return x; }
  __device__ __forceinline__ int operator()(signed char x) const { return x + 128; }
  __device__ __forceinline__ int operator()(short x) const { return (x + 32768) >> 8; }
  __device__ __forceinline__ int operator()(int x) const { return (x >> 24) + 128; }
  __device__ __forceinline__ int operator()(unsigned short x) const { return x >> 8; }
  __device__ __forceinline__ int operator()(float v) const { return (*this)(static_cast<double>(v)); }
  __device__ __forceinline__ int operator()(__half v) const { return (*this)(__half2float(v)); }
  __device__ __forceinline__ int operator()(__nv_bfloat16 v) const { return (*this)(__bfloat162float(v)); }
  __device__ __forceinline__ int operator()(double v) const {
    const double shifted = v - low;
    const double place = exact_scale != 0.0 ? shifted * exact_scale : shifted * 256.0 / width;
    // The conversion saturates, so infinities meet the clip as any other value does.
    const int bin = min(max(__double2int_rd(place), 0), bins_per_part - 1);
    return isnan(v) ? -1 : bin;
  }
};

/// The type of an element's parts, and how many they are.
template <class T>
struct parts_of {
  static constexpr int count = 1;
};
template <>
struct parts_of<uchar2> {
  static constexpr int count = 2;
};
template <>
struct parts_of<char2> {
  static constexpr int count = 2;
};
template <>
struct parts_of<short2> {
  static constexpr int count = 2;
};
template <>
struct parts_of<float2> {
  static constexpr int count = 2;
};

__device__ __forceinline__ void count_bin(unsigned* counts, int bin) {
  if (bin >= 0) {
    atomicAdd(counts + bin, 1U);
  }
}

/// Each warp counts in bins of its own, in shared memory.
template <class T>
__device__ __forceinline__ void count_elements(const T* elements, std::int64_t count, int thread, int threads,
                                               const bin_of& bin, unsigned* counts) {
  visit_elements(elements, count, thread, threads, [&](T element) {
    if constexpr (parts_of<T>::count == 1) {
      count_bin(counts, bin(element));
    } else {
      count_bin(counts, bin(element.x));
      count_bin(counts + bins_per_part, bin(element.y));
    }
  });
}

template <class T>
__global__ void __launch_bounds__(block_threads)
    histogram_by_warp(const T* __restrict__ input, row_split split, bin_of bin, int* __restrict__ output) {
  constexpr int places = parts_of<T>::count * bins_per_part;
  __shared__ unsigned warp_counts[block_warps][places];
  const int lane = static_cast<int>(threadIdx.x) % warp_threads;
  unsigned* const counts = warp_counts[threadIdx.x / warp_threads];
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * block_warps;
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * block_warps + threadIdx.x / warp_threads;
       row < split.rows; row += warps) {
    for (int place = lane; place < places; place += warp_threads) {
      counts[place] = 0;
    }
    __syncwarp();
    count_elements(input + row * split.length, split.length, lane, warp_threads, bin, counts);
    __syncwarp();
    for (int place = lane; place < places; place += warp_threads) {
      output[row * places + place] = static_cast<int>(counts[place]);
    }
    __syncwarp();
  }
}

/// A block takes a segment of a row. With one segment a row it writes the counts; else it adds them to the output,
/// which starts at zero.
template <class T>
__global__ void __launch_bounds__(block_threads)
    histogram_by_block(const T* __restrict__ input, row_split split, bin_of bin, int* __restrict__ output) {
  constexpr int places = parts_of<T>::count * bins_per_part;
  __shared__ unsigned warp_counts[block_warps][places];
  const int thread = static_cast<int>(threadIdx.x);
  for (std::int64_t item = blockIdx.x; item < split.items(); item += gridDim.x) {
    for (int place = thread; place < block_warps * places; place += block_threads) {
      warp_counts[place / places][place % places] = 0;
    }
    __syncthreads();
    const std::int64_t row = item / split.segments;
    const std::int64_t first = (item - row * split.segments) * split.segment_length;
    count_elements(input + row * split.length + first, min(split.segment_length, split.length - first), thread,
                   block_threads, bin, warp_counts[thread / warp_threads]);
    __syncthreads();
    for (int place = thread; place < places; place += block_threads) {
      unsigned whole = 0;
      for (int warp = 0; warp < block_warps; ++warp) {
        whole += warp_counts[warp][place];
      }
      if (split.segments == 1) {
        output[row * places + place] = static_cast<int>(whole);
      } else if (whole != 0) {
        atomicAdd(output + row * places + place, static_cast<int>(whole));
      }
    }
    __syncthreads();
  }
}

class histogram_cuda final : public operation {
 public:
  explicit histogram_cuda(histogram_settings settings)
      : settings_{std::move(settings)},
        bin_{settings_.low, settings_.width, settings_.exact_scale},
        multiprocessors_{multiprocessor_count()} {}

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    switch (settings_.type) {
      case element_type::u8:
        return count<unsigned char>(stream, arguments);
      case element_type::i8:
        return count<signed char>(stream, arguments);
      case element_type::i16:
        return count<short>(stream, arguments);
      case element_type::i32:
        return count<int>(stream, arguments);
      case element_type::f32:
        return count<float>(stream, arguments);
      case element_type::cu8:
        return count<uchar2>(stream, arguments);
      case element_type::ci8:
        return count<char2>(stream, arguments);
      case element_type::ci16:
        return count<short2>(stream, arguments);
      case element_type::u16:
        return count<unsigned short>(stream, arguments);
      case element_type::f16:
        return count<__half>(stream, arguments);
      case element_type::bf16:
        return count<__nv_bfloat16>(stream, arguments);
      case element_type::f64:
        return count<double>(stream, arguments);
      case element_type::cf32:
      case element_type::i64:
      case element_type::boolean:
        break;
    }
    return count<float2>(stream, arguments);
  }

 private:
  template <class T>
  fault count(void* stream, const operation_arguments& arguments) noexcept {
    const row_split split =
        split_rows(settings_.rows.length(arguments.extent), settings_.rows.count(arguments.extent), multiprocessors_);
    if (split.rows <= 0) {
      return {};
    }
    const auto* const in = static_cast<const T*>(arguments.inputs[0]);
    auto* const out = static_cast<int*>(arguments.output);
    if (split.segments > 1) {
      const auto bytes = static_cast<std::size_t>(split.rows * settings_.parts * histogram_bins) * sizeof(int);
      if (const fault failed = clear(stream, out, bytes)) {
        return failed;
      }
    }
    return launch(stream, grid_of_items(split, multiprocessors_), dim3(block_threads),
                  split.warp_per_row ? &histogram_by_warp<T> : &histogram_by_block<T>, in, split, bin_, out);
  }

  const histogram_settings settings_;
  const bin_of bin_;
  const std::int64_t multiprocessors_;
};

}  // namespace

std::unique_ptr<operation> make_histogram_cuda(const operation_request& request) {
  return std::make_unique<histogram_cuda>(parse_histogram(request.settings, request.inputs[0]));
}

}  // namespace penstock

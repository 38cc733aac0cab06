#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/moments.hpp"
#include "kernels/row_split.cuh"

namespace penstock {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

/// Moments of one view of a row or of a part of it. Sums are of v - shift.
struct view_moments {
  double sum;
  double squares;
  float low;
  float high;
  unsigned nan;

  __device__ void clear() {
    sum = 0.0;
    squares = 0.0;
    low = infinity;
    high = -infinity;
    nan = 0;
  }

  /// `rounded` is `value` in f32.
  __device__ __forceinline__ void take(double value, float rounded, double shift) {
    const double difference = value - shift;
    sum += difference;
    squares = fma(difference, difference, squares);
    low = fminf(low, rounded);
    high = fmaxf(high, rounded);
    nan |= isnan(rounded) ? 1U : 0U;
  }

  __device__ __forceinline__ void merge(const view_moments& other) {
    sum += other.sum;
    squares += other.squares;
    low = fminf(low, other.low);
    high = fmaxf(high, other.high);
    nan |= other.nan;
  }

  /// The sum over the warp, in every lane.
  __device__ void merge_warp() {
    for (int distance = warp_threads / 2; distance > 0; distance /= 2) {
      view_moments other;
      other.sum = __shfl_xor_sync(~0U, sum, distance);
      other.squares = __shfl_xor_sync(~0U, squares, distance);
      other.low = __shfl_xor_sync(~0U, low, distance);
      other.high = __shfl_xor_sync(~0U, high, distance);
      other.nan = __shfl_xor_sync(~0U, nan, distance);
      merge(other);
    }
  }
};

template <class T>
inline constexpr int views_of = 1;
template <>
inline constexpr int views_of<float2> = 3;

/// The views of one value. |z| is in float64: its spread may be a millionth of it.
__device__ __forceinline__ void views(float value, double (&out)[1]) {
  out[0] = static_cast<double>(value);
}
__device__ __forceinline__ void views(double value, double (&out)[1]) {
  out[0] = value;
}
__device__ __forceinline__ void views(__half value, double (&out)[1]) {
  out[0] = static_cast<double>(__half2float(value));
}
__device__ __forceinline__ void views(__nv_bfloat16 value, double (&out)[1]) {
  out[0] = static_cast<double>(__bfloat162float(value));
}

/// The root of a square sum of f32, within 1e-11 of itself: one of Goldschmidt's steps behind 20 bits of the hardware.
__device__ __forceinline__ double root_of(double square) {
  double inverse = 0.0;
  asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(inverse) : "d"(square));
  const double estimate = square * inverse;
  const double root = fma(estimate, fma(-estimate, 0.5 * inverse, 0.5), estimate);
  return square > 0.0 && square < 1e300 ? root : square;  // 0, infinity and NaN are their own roots
}

__device__ __forceinline__ void views(float2 z, double (&out)[3]) {
  out[0] = static_cast<double>(z.x);
  out[1] = static_cast<double>(z.y);
  out[2] = root_of(fma(out[0], out[0], out[1] * out[1]));
}

__device__ __forceinline__ void narrow_views(float value, const double (&)[1], float (&out)[1]) {
  out[0] = value;
}
template <class T>
__device__ __forceinline__ void narrow_views(T, const double (&wide)[1], float (&out)[1]) {
  out[0] = static_cast<float>(wide[0]);
}
__device__ __forceinline__ void narrow_views(float2 z, const double (&wide)[3], float (&out)[3]) {
  out[0] = z.x;
  out[1] = z.y;
  out[2] = static_cast<float>(wide[2]);
}

/// The row's first value, as long as it is finite.
template <class T>
__device__ __forceinline__ void row_shifts(const T* row, double (&shifts)[views_of<T>]) {
  views(*row, shifts);
#pragma unroll
  for (double& shift : shifts) {
    shift = isfinite(shift) ? shift : 0.0;
  }
}

/// Where the results of each view of each row go. `centres` is nullptr unless a second pass takes powers.
struct moments_output {
  float* results;
  int each;          ///< results of one view of one row
  double2* centres;  ///< mean and scale, of one view of one row

  [[nodiscard]] __device__ float* at(std::int64_t view_of_row) const { return results + view_of_row * each; }
};

__device__ void write_results(const view_moments& gathered, double shift, std::int64_t length,
                              const moments_output& output, std::int64_t view_of_row) {
  float* const out = output.at(view_of_row);
  const double n = static_cast<double>(length);
  const double offset = gathered.sum / n;
  const double mean = shift + offset;
  const double centred = gathered.squares / n - offset * offset;
  // Not fmax: a NaN must come through.
  const double variance = centred < 0.0 ? 0.0 : centred;
  out[0] = static_cast<float>(mean);
  out[1] = static_cast<float>(sqrt(variance));
  out[2] = gathered.nan != 0 ? not_a_number : gathered.low;
  out[3] = gathered.nan != 0 ? not_a_number : gathered.high;
  out[4] = static_cast<float>(sqrt(variance + mean * mean));
  if (output.centres != nullptr) {
    const double scale = 1.0 / sqrt(variance);
    output.centres[view_of_row] = make_double2(mean, isfinite(scale) ? scale : 1.0);
  }
}

/// One thread's share of the elements, then its warp's.
template <class T>
__device__ __forceinline__ void gather(const T* elements, std::int64_t count, const double (&shifts)[views_of<T>],
                                       int thread, int threads, view_moments (&into)[views_of<T>]) {
#pragma unroll
  for (view_moments& view : into) {
    view.clear();
  }
  visit_elements(elements, count, thread, threads, [&](T element) {
    double wide[views_of<T>];
    float narrow[views_of<T>];
    views(element, wide);
    narrow_views(element, wide, narrow);
#pragma unroll
    for (int view = 0; view < views_of<T>; ++view) {
      into[view].take(wide[view], narrow[view], shifts[view]);
    }
  });
#pragma unroll
  for (view_moments& view : into) {
    view.merge_warp();
  }
}

/// values[index], without putting the registers into memory.
template <int Count>
__device__ __forceinline__ double chosen(const double (&values)[Count], int index) {
  double value = values[0];
#pragma unroll
  for (int place = 1; place < Count; ++place) {
    value = index == place ? values[place] : value;
  }
  return value;
}

/// Joins the moments of the warps of a block in warp_moments[0], where thread `view` of the block may read its own
/// view.
template <class Sums, int Count>
__device__ __forceinline__ void join_warps(const Sums (&gathered)[Count], Sums (&warp_moments)[block_warps][Count],
                                           int thread) {
  if (thread % warp_threads == 0) {
#pragma unroll
    for (int view = 0; view < Count; ++view) {
      warp_moments[thread / warp_threads][view] = gathered[view];
    }
  }
  __syncthreads();
  if (thread < Count) {
    for (int warp = 1; warp < block_warps; ++warp) {
      warp_moments[0][thread].merge(warp_moments[warp][thread]);
    }
  }
}

/// A block takes a segment of a row. With one segment a row it writes the results, else its moments to `parts`.
template <class T>
__global__ void __launch_bounds__(block_threads)
    moments_by_block(const T* __restrict__ input, row_split split, view_moments* __restrict__ parts,
                     const moments_output output) {
  constexpr int count = views_of<T>;
  __shared__ view_moments warp_moments[block_warps][count];
  const int thread = static_cast<int>(threadIdx.x);
  for (std::int64_t item = blockIdx.x; item < split.items(); item += gridDim.x) {
    const std::int64_t row = item / split.segments;
    const std::int64_t first = (item - row * split.segments) * split.segment_length;
    const T* const elements = input + row * split.length;
    double shifts[count];
    view_moments gathered[count];
    row_shifts(elements, shifts);
    gather(elements + first, min(split.segment_length, split.length - first), shifts, thread, block_threads, gathered);
    join_warps(gathered, warp_moments, thread);
    if (thread < count) {
      const view_moments& whole = warp_moments[0][thread];
      if (split.segments == 1) {
        write_results(whole, chosen(shifts, thread), split.length, output, row * count + thread);
      } else {
        parts[item * count + thread] = whole;
      }
    }
    __syncthreads();
  }
}

/// One warp a row: the results from its segments' parts.
template <class T>
__global__ void __launch_bounds__(warp_threads)
    join_segments(const T* __restrict__ input, row_split split, const view_moments* __restrict__ parts,
                  const moments_output output) {
  constexpr int count = views_of<T>;
  const std::int64_t row = blockIdx.x;
  double shifts[count];
  row_shifts(input + row * split.length, shifts);
#pragma unroll
  for (int view = 0; view < count; ++view) {
    view_moments whole;
    whole.clear();
    for (std::int64_t segment = threadIdx.x; segment < split.segments; segment += warp_threads) {
      whole.merge(parts[(row * split.segments + segment) * count + view]);
    }
    whole.merge_warp();
    if (threadIdx.x == 0) {
      write_results(whole, shifts[view], split.length, output, row * count + view);
    }
  }
}

/// Sums of the powers of t = (v - mean) · scale of one view of a row or of a part of it.
struct view_powers {
  double squares;
  double cubes;
  double fourths;

  __device__ void clear() { squares = cubes = fourths = 0.0; }
  __device__ __forceinline__ void take(double value, const double2& centre) {
    const double t = (value - centre.x) * centre.y;
    const double square = t * t;
    squares += square;
    cubes = fma(square, t, cubes);
    fourths = fma(square, square, fourths);
  }
  __device__ __forceinline__ void merge(const view_powers& other) {
    squares += other.squares;
    cubes += other.cubes;
    fourths += other.fourths;
  }
  __device__ void merge_warp() {
    for (int distance = warp_threads / 2; distance > 0; distance /= 2) {
      view_powers other;
      other.squares = __shfl_xor_sync(~0U, squares, distance);
      other.cubes = __shfl_xor_sync(~0U, cubes, distance);
      other.fourths = __shfl_xor_sync(~0U, fourths, distance);
      merge(other);
    }
  }
};

__device__ void write_powers(const view_powers& sums, std::int64_t length, const moments_output& output,
                             std::int64_t view_of_row) {
  const double n = static_cast<double>(length);
  const double2 centre = output.centres[view_of_row];
  const double variance = sums.squares / n;
  const double scaled_mean = centre.x * centre.y;
  const bool flat = variance <= least_variance * scaled_mean * scaled_mean;
  float* const out = output.at(view_of_row);
  out[5] = flat ? not_a_number : static_cast<float>(sums.cubes / n / (variance * sqrt(variance)));
  out[6] = flat ? not_a_number : static_cast<float>(sums.fourths / n / (variance * variance) - 3.0);
}

/// One thread's share of the elements, then its warp's.
template <class T>
__device__ __forceinline__ void gather_powers(const T* elements, std::int64_t count, const double2* row_centres,
                                              int thread, int threads, view_powers (&into)[views_of<T>]) {
  double2 centres[views_of<T>];
#pragma unroll
  for (int view = 0; view < views_of<T>; ++view) {
    into[view].clear();
    centres[view] = row_centres[view];
  }
  visit_elements(elements, count, thread, threads, [&](T element) {
    double wide[views_of<T>];
    views(element, wide);
#pragma unroll
    for (int view = 0; view < views_of<T>; ++view) {
      into[view].take(wide[view], centres[view]);
    }
  });
#pragma unroll
  for (view_powers& view : into) {
    view.merge_warp();
  }
}

/// A warp takes a row, whose second look for the powers finds it in the cache.
template <class T, bool WithPowers>
__global__ void __launch_bounds__(block_threads)
    moments_by_warp(const T* __restrict__ input, row_split split, const moments_output output) {
  constexpr int count = views_of<T>;
  const int lane = static_cast<int>(threadIdx.x) % warp_threads;
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * block_warps;
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * block_warps + threadIdx.x / warp_threads;
       row < split.rows; row += warps) {
    const T* const elements = input + row * split.length;
    double shifts[count];
    view_moments gathered[count];
    row_shifts(elements, shifts);
    gather(elements, split.length, shifts, lane, warp_threads, gathered);
#pragma unroll
    for (int view = 0; view < count; ++view) {
      if (lane == view) {
        write_results(gathered[view], shifts[view], split.length, output, row * count + view);
      }
    }
    if constexpr (WithPowers) {
      __syncwarp();  // the centres are there
      view_powers powers[count];
      gather_powers(elements, split.length, output.centres + row * count, lane, warp_threads, powers);
#pragma unroll
      for (int view = 0; view < count; ++view) {
        if (lane == view) {
          write_powers(powers[view], split.length, output, row * count + view);
        }
      }
    }
  }
}

/// As moments_by_block.
template <class T>
__global__ void __launch_bounds__(block_threads)
    powers_by_block(const T* __restrict__ input, row_split split, view_powers* __restrict__ parts,
                    const moments_output output) {
  constexpr int count = views_of<T>;
  __shared__ view_powers warp_powers[block_warps][count];
  const int thread = static_cast<int>(threadIdx.x);
  for (std::int64_t item = blockIdx.x; item < split.items(); item += gridDim.x) {
    const std::int64_t row = item / split.segments;
    const std::int64_t first = (item - row * split.segments) * split.segment_length;
    view_powers gathered[count];
    gather_powers(input + row * split.length + first, min(split.segment_length, split.length - first),
                  output.centres + row * count, thread, block_threads, gathered);
    join_warps(gathered, warp_powers, thread);
    if (thread < count) {
      const view_powers& whole = warp_powers[0][thread];
      if (split.segments == 1) {
        write_powers(whole, split.length, output, row * count + thread);
      } else {
        parts[item * count + thread] = whole;
      }
    }
    __syncthreads();
  }
}

/// One warp a row: the results from its segments' parts.
template <int Count>
__global__ void __launch_bounds__(warp_threads)
    join_powers(row_split split, const view_powers* __restrict__ parts, const moments_output output) {
  const std::int64_t row = blockIdx.x;
#pragma unroll
  for (int view = 0; view < Count; ++view) {
    view_powers whole;
    whole.clear();
    for (std::int64_t segment = threadIdx.x; segment < split.segments; segment += warp_threads) {
      whole.merge(parts[(row * split.segments + segment) * Count + view]);
    }
    whole.merge_warp();
    if (threadIdx.x == 0) {
      write_powers(whole, split.length, output, row * Count + view);
    }
  }
}

class moments_cuda final : public operation {
 public:
  moments_cuda(moments_settings settings, std::int64_t max_frames)
      : settings_{std::move(settings)},
        multiprocessors_{multiprocessor_count()},
        max_views_{settings_.rows.count({.frames = max_frames, .leading = settings_.input.shape.front()}) *
                   settings_.views} {}

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override {
    return centres_bytes() +
           (settings_.rows.max_length() < 2 * min_segment
                ? 0
                : static_cast<std::size_t>(max_segmented_items(multiprocessors_) * settings_.views) * part_bytes);
  }

  [[nodiscard]] bool single_pass() const noexcept override { return !takes_powers(); }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    switch (settings_.input.type) {
      case element_type::cf32:
        return gather_rows<float2>(stream, arguments);
      case element_type::f16:
        return gather_rows<__half>(stream, arguments);
      case element_type::bf16:
        return gather_rows<__nv_bfloat16>(stream, arguments);
      case element_type::f64:
        return gather_rows<double>(stream, arguments);
      default:
        return gather_rows<float>(stream, arguments);
    }
  }

 private:
  static constexpr std::size_t part_bytes = std::max(sizeof(view_moments), sizeof(view_powers));

  [[nodiscard]] bool takes_powers() const noexcept { return settings_.results > 5; }
  [[nodiscard]] std::size_t centres_bytes() const noexcept {
    return takes_powers() ? static_cast<std::size_t>(max_views_) * sizeof(double2) : 0;
  }

  template <class T>
  fault gather_rows(void* stream, const operation_arguments& arguments) noexcept {
    const row_split split =
        split_rows(settings_.rows.length(arguments.extent), settings_.rows.count(arguments.extent), multiprocessors_);
    if (split.rows <= 0 || split.length <= 0) {
      return {};
    }
    const auto* const in = static_cast<const T*>(arguments.inputs[0]);
    const moments_output out{static_cast<float*>(arguments.output), static_cast<int>(settings_.results),
                             takes_powers() ? static_cast<double2*>(arguments.scratch) : nullptr};
    void* const parts = static_cast<std::byte*>(arguments.scratch) + centres_bytes();
    const dim3 grid = grid_of_items(split, multiprocessors_);
    const dim3 rows(static_cast<unsigned>(split.rows));
    if (split.warp_per_row) {
      return launch(stream, grid, dim3(block_threads),
                    takes_powers() ? &moments_by_warp<T, true> : &moments_by_warp<T, false>, in, split, out);
    }
    auto* const moments = static_cast<view_moments*>(parts);
    if (const fault failed = launch(stream, grid, dim3(block_threads), &moments_by_block<T>, in, split, moments, out)) {
      return failed;
    }
    if (split.segments > 1) {
      if (const fault failed = launch(stream, rows, dim3(warp_threads), &join_segments<T>, in, split, moments, out)) {
        return failed;
      }
    }
    if (!takes_powers()) {
      return {};
    }
    auto* const powers = static_cast<view_powers*>(parts);
    if (const fault failed = launch(stream, grid, dim3(block_threads), &powers_by_block<T>, in, split, powers, out)) {
      return failed;
    }
    return split.segments == 1
               ? fault{}
               : launch(stream, rows, dim3(warp_threads), &join_powers<views_of<T>>, split, powers, out);
  }

  const moments_settings settings_;
  const std::int64_t multiprocessors_;
  const std::int64_t max_views_;  ///< of the rows of a batch
};

}  // namespace

std::unique_ptr<operation> make_moments_cuda(const operation_request& request) {
  return std::make_unique<moments_cuda>(parse_moments(request.settings, request.inputs[0]), request.max_frames);
}

}  // namespace penstock

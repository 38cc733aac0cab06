#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/correlate.hpp"
#include "kernels/device_array.cuh"
#include "kernels/launch.cuh"

namespace penstock {
namespace {

/// Terms of a sum above which "auto" transforms. Up to here the sum's fused multiply-adds, two of three cycles of which
/// do arithmetic, take about as long as the transforms' ways through memory (some 50 bytes a result) on an H200.
constexpr std::int64_t most_direct_terms = 256;

/// Neighbouring results of a thread, and taps of a step: one load of 16 bytes brings so many samples.
constexpr int quad = 4;
/// Templates with peaks of other binary exponents are scaled.
constexpr int most_template_exponent = 20;
/// Taps that are in shared memory at a time.
constexpr int chunk_taps = 256;

struct direct_rows {
  std::int64_t count;
  std::int64_t rows_a_template;
  std::int64_t length;
  std::int64_t taps;
  std::int64_t results;
  std::int64_t start;  ///< correlate_settings::start()
  std::int64_t tiles;  ///< of each row
  int exponent;        ///< the template, where it is a parameter, is divided by its power of two
};

template <class T>
inline constexpr bool is_complex_element = false;
template <>
inline constexpr bool is_complex_element<float2> = true;

/// `Count` floats of shared memory, aligned for loads of 16 bytes; one where they aren't needed.
template <bool Needed, int Count>
struct __align__(16) part_buffer {
  float at[Needed ? Count : quad];
};

/// Elements first … first + filled - 1 of a row of `length` elements into their parts, zeros beyond its ends.
template <int Threads, class T, bool Complex = is_complex_element<T>>
__device__ __forceinline__ void load_parts(const T* __restrict__ row, std::int64_t length, std::int64_t first,
                                           int filled, float* re, float* im) {
  for (int at = static_cast<int>(threadIdx.x); at < filled; at += Threads) {
    const std::int64_t from = first + at;
    T value{};
    if (from >= 0 && from < length) {
      value = row[from];
    }
    if constexpr (Complex) {
      re[at] = value.x;
      im[at] = value.y;
    } else {
      re[at] = value;
    }
  }
}

/// sums[r] += sign · sum_t x[t + r] h[t], r and t = 0 … 3; `x` has eight values. With `Last` only the first `taps`
/// terms: a sample behind them may be one that a product with 0 would spread.
template <bool Last>
__device__ __forceinline__ void add_products(const float (&x)[2 * quad], const float (&h)[quad], float sign, int taps,
                                             float (&sums)[quad]) {
#pragma unroll
  for (int tap = 0; tap < quad; ++tap) {
    if (Last && tap >= taps) {
      break;
    }
    const float by = sign * h[tap];
#pragma unroll
    for (int result = 0; result < quad; ++result) {
      sums[result] = fmaf(x[tap + result], by, sums[result]);
    }
  }
}

/// `from` lies in shared memory, aligned to 16 bytes.
__device__ __forceinline__ void load_quad(const float* from, float* to) {
  const float4 loaded = *reinterpret_cast<const float4*>(from);
  to[0] = loaded.x;
  to[1] = loaded.y;
  to[2] = loaded.z;
  to[3] = loaded.w;
}

/// A tile's results through shared memory, so that neighbouring threads write neighbouring results.
template <int Threads, class Result>
__device__ __forceinline__ void store_tile(const float (&re)[quad], const float (&im)[quad], float* shared_re,
                                           float* shared_im, int count, Result* __restrict__ output) {
  constexpr bool complex_result = is_complex_element<Result>;
#pragma unroll
  for (int result = 0; result < quad; ++result) {
    shared_re[quad * threadIdx.x + result] = re[result];
    if constexpr (complex_result) {
      shared_im[quad * threadIdx.x + result] = im[result];
    }
  }
  __syncthreads();
  for (int at = static_cast<int>(threadIdx.x); at < count; at += Threads) {
    if constexpr (complex_result) {
      output[at] = make_float2(shared_re[at], shared_im[at]);
    } else {
      output[at] = shared_re[at];
    }
  }
  __syncthreads();
}

/// A block takes 4 · Threads results of a row, four neighbours a thread; taps and the samples that they meet go through
/// shared memory, chunk after chunk.
template <int Threads, class Signal, class Template, class Result>
__global__ void __launch_bounds__(Threads)
    correlate_tiles(const Signal* __restrict__ signal, const Template* __restrict__ templates, direct_rows rows,
                    Result* __restrict__ output) {
  constexpr bool complex_signal = is_complex_element<Signal>;
  constexpr bool complex_template = is_complex_element<Template>;
  constexpr int tile = quad * Threads;
  // The last thread's last step loads eight samples from its place on.
  constexpr int window = tile + chunk_taps;
  __shared__ part_buffer<true, window> x_re;
  __shared__ part_buffer<is_complex_element<Result>, window> x_im;
  __shared__ part_buffer<true, chunk_taps> h_re;
  __shared__ part_buffer<complex_template, chunk_taps> h_im;
  const int offset = quad * static_cast<int>(threadIdx.x);
  for (std::int64_t item = blockIdx.x; item < rows.count * rows.tiles; item += gridDim.x) {
    const std::int64_t row = item / rows.tiles;
    const std::int64_t first = (item - row * rows.tiles) * tile;
    const Signal* const samples = signal + row * rows.length;
    const Template* const taps = templates + row / rows.rows_a_template * rows.taps;
    // Tap n of result k meets sample start + k + n; only taps that meet one of the row's in this tile.
    const std::int64_t from = max(static_cast<std::int64_t>(0), -(rows.start + first + tile - 1));
    const std::int64_t to = min(rows.taps, rows.length - (rows.start + first));
    // Each chunk's sums are in single precision, and widened: so many alike terms stay within 1e-6 of their sum.
    double re_total[quad] = {};
    double im_total[quad] = {};
    for (std::int64_t chunk = from; chunk < to; chunk += chunk_taps) {
      float re[quad] = {};
      float im[quad] = {};
      const int used = static_cast<int>(min(static_cast<std::int64_t>(chunk_taps), to - chunk));
      load_parts<Threads>(samples, rows.length, rows.start + first + chunk, tile + (used + quad - 1) / quad * quad,
                          x_re.at, x_im.at);
      load_parts<Threads>(taps, to, chunk, chunk_taps, h_re.at, h_im.at);
      __syncthreads();
      float x[2 * quad];
      float y[2 * quad] = {};
      load_quad(x_re.at + offset, x);
      if constexpr (complex_signal) {
        load_quad(x_im.at + offset, y);
      }
      const auto step = [&](auto last, int tap) {
        constexpr bool is_last = decltype(last)::value;
        float h[quad];
        load_quad(h_re.at + tap, h);
        load_quad(x_re.at + offset + tap + quad, x + quad);
        add_products<is_last>(x, h, 1.0F, used - tap, re);
        if constexpr (complex_signal) {
          load_quad(x_im.at + offset + tap + quad, y + quad);
          add_products<is_last>(y, h, 1.0F, used - tap, im);
        }
        if constexpr (complex_template) {
          float g[quad];
          load_quad(h_im.at + tap, g);
          add_products<is_last>(x, g, -1.0F, used - tap, im);
          if constexpr (complex_signal) {
            add_products<is_last>(y, g, 1.0F, used - tap, re);
          }
        }
#pragma unroll
        for (int kept = 0; kept < quad; ++kept) {
          x[kept] = x[kept + quad];
          y[kept] = y[kept + quad];
        }
      };
      int tap = 0;
      for (; tap + quad <= used; tap += quad) {
        step(std::false_type{}, tap);
      }
      if (tap < used) {
        step(std::true_type{}, tap);
      }
#pragma unroll
      for (int result = 0; result < quad; ++result) {
        re_total[result] += static_cast<double>(re[result]);
        im_total[result] += static_cast<double>(im[result]);
      }
      __syncthreads();
    }
    const auto count = static_cast<int>(min(static_cast<std::int64_t>(tile), rows.results - first));
    float re[quad];
    float im[quad];
#pragma unroll
    for (int result = 0; result < quad; ++result) {
      re[result] = static_cast<float>(scalbn(re_total[result], rows.exponent));
      im[result] = static_cast<float>(scalbn(im_total[result], rows.exponent));
    }
    store_tile<Threads>(re, im, x_re.at, x_im.at, count, output + row * rows.results + first);
  }
}

/// Results up to which a row goes to blocks of one warp.
constexpr std::int64_t short_results = 512;

template <class Template>
class correlate_direct_cuda final : public operation {
 public:
  explicit correlate_direct_cuda(correlate_settings settings)
      : settings_{std::move(settings)}, multiprocessors_{multiprocessor_count()} {
    if (!settings_.coefficients.empty()) {
      // With a template near 1 no product leaves f32's range sooner than its sample is near the end of it.
      float peak = 0.0F;
      for (const float tap : settings_.coefficients) {
        peak = std::max(peak, std::abs(tap));
      }
      exponent_ = std::isnormal(peak) && std::abs(std::ilogb(peak)) > most_template_exponent ? std::ilogb(peak) + 1 : 0;
      std::vector<float> scaled = settings_.coefficients;
      for (float& tap : scaled) {
        tap = std::scalbn(tap, -exponent_);
      }
      kept_.emplace(std::span<const float>(scaled));
    }
  }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    if constexpr (is_complex_element<Template>) {
      return settings_.complex_signal ? correlate<float2, float2>(stream, arguments)
                                      : correlate<float, float2>(stream, arguments);
    } else {
      return settings_.complex_signal ? correlate<float2, float2>(stream, arguments)
                                      : correlate<float, float>(stream, arguments);
    }
  }

 private:
  template <class Signal, class Result>
  fault correlate(void* stream, const operation_arguments& arguments) noexcept {
    return settings_.results <= short_results ? correlate_by<warp_threads, Signal, Result>(stream, arguments)
                                              : correlate_by<block_threads, Signal, Result>(stream, arguments);
  }

  template <int Threads, class Signal, class Result>
  fault correlate_by(void* stream, const operation_arguments& arguments) noexcept {
    const direct_rows rows{settings_.rows.count(arguments.extent),
                           settings_.rows_a_template(arguments.extent),
                           settings_.length,
                           settings_.template_length,
                           settings_.results,
                           settings_.start(),
                           divide_up(settings_.results, quad * Threads),
                           exponent_};
    if (rows.count <= 0) {
      return {};
    }
    const void* const templates = kept_ ? kept_->data() : arguments.inputs[1];
    const std::int64_t resident = multiprocessors_ * (Threads == warp_threads ? 32 : 2048 / Threads);
    return launch(stream, grid_of(rows.count * rows.tiles, resident), dim3(Threads),
                  &correlate_tiles<Threads, Signal, Template, Result>, static_cast<const Signal*>(arguments.inputs[0]),
                  static_cast<const Template*>(templates), rows, static_cast<Result*>(arguments.output));
  }

  const correlate_settings settings_;
  const std::int64_t multiprocessors_;
  int exponent_ = 0;
  std::optional<device_array<float>> kept_;  ///< the parameter's template
};

}  // namespace

std::unique_ptr<operation> make_direct_correlate_cuda(correlate_settings settings) {
  if (settings.complex_template) {
    return std::make_unique<correlate_direct_cuda<float2>>(std::move(settings));
  }
  return std::make_unique<correlate_direct_cuda<float>>(std::move(settings));
}

std::unique_ptr<operation> make_correlate_cuda(const operation_request& request) {
  correlate_settings settings = parse_correlate(request.settings, request.inputs);
  if (settings.method == sum_method::direct ||
      (settings.method == sum_method::automatic && settings.terms() <= most_direct_terms)) {
    return make_direct_correlate_cuda(std::move(settings));
  }
  const batch_extent most{.frames = request.max_frames, .leading = request.inputs[0].shape.front()};
  return make_fft_correlate_cuda(std::move(settings), most);
}

}  // namespace penstock

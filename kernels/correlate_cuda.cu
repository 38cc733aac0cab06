#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/correlate.hpp"
#include "kernels/correlate_fft.cuh"
#include "kernels/cufft.hpp"
#include "kernels/launch.cuh"
#include "kernels/overlap_save.hpp"

namespace penstock {
namespace {

[[nodiscard]] constexpr std::size_t aligned(std::size_t bytes) noexcept {
  return (bytes + 255) / 256 * 256;
}

/// Bytes of samples in one pass: enough to fill the device, and few enough to stay in the L2 cache between the steps,
/// whatever the batch.
constexpr std::int64_t pass_bytes = std::int64_t{16} << 20;

/// Plans for each power of two below `most` and for `most` blocks. A pass uses the smallest that holds it; the rest of
/// the scratch is transformed for nothing.
std::vector<cufft_plan> make_plans(std::int64_t length, bool complex, std::int64_t most) {
  const std::shared_ptr<const cufft_library> library = cufft_library::load();
  const auto kind = complex ? cufft_plan::kind::complex_to_complex : cufft_plan::kind::real_to_complex;
  std::vector<cufft_plan> plans;
  for (std::int64_t rows = 1; rows < most; rows *= 2) {
    plans.emplace_back(library, kind, length, rows);
  }
  plans.emplace_back(library, kind, length, most);
  return plans;
}

/// Pass after pass: measure, load, transform, multiply, transform, store (correlate_fft.cuh). Each block of samples is
/// transformed once, and each of its products with a template of the bank transformed back. The scratch holds a pass's
/// samples, its spectra (complex samples are transformed in place), the products and what they become (without a bank
/// where the samples and the spectra were), the templates' spectra, the peaks of both and cuFFT's work area.
class correlate_fft_cuda final : public operation {
 public:
  correlate_fft_cuda(correlate_settings settings, const batch_extent& most)
      : settings_{std::move(settings)},
        blocks_{plan_correlate_blocks(settings_)},
        complex_{settings_.complex_output()},
        multiprocessors_{multiprocessor_count()},
        bank_per_pass_{std::min(settings_.bank, max_products_per_pass())},
        blocks_per_pass_{std::clamp<std::int64_t>(settings_.rows.count(most) * blocks_.count, 1,
                                                  std::max<std::int64_t>(max_products_per_pass() / settings_.bank, 1))},
        plans_{make_plans(blocks_.length, complex_, blocks_per_pass_ * bank_per_pass_)} {
    // A pass's blocks are transformed with the plan that holds them, which may be one of more.
    const std::int64_t products = plans_.back().rows();
    const std::int64_t blocks = std::find_if(plans_.begin(), plans_.end(), [this](const cufft_plan& p) {
                                  return p.rows() >= blocks_per_pass_;
                                })->rows();
    std::size_t end = 0;
    const auto take = [&end](std::int64_t count, std::size_t bytes) {
      const std::size_t begin = end;
      end += aligned(static_cast<std::size_t>(count) * bytes);
      return begin;
    };
    const std::size_t spectrum_bytes = static_cast<std::size_t>(bins()) * sizeof(float2);
    const std::size_t block_bytes = static_cast<std::size_t>(blocks_.length) * sample_bytes();
    samples_offset_ = take(blocks, block_bytes);
    spectra_offset_ = complex_ ? samples_offset_ : take(blocks, spectrum_bytes);
    products_offset_ = settings_.bank == 1 ? samples_offset_ : take(products, block_bytes);
    results_offset_ = settings_.bank == 1 ? spectra_offset_
                      : complex_          ? products_offset_
                                          : take(products, spectrum_bytes);
    templates_offset_ = take(products, spectrum_bytes);
    peaks_offset_ = take(blocks, static_cast<std::size_t>(pieces()) * sizeof(std::uint32_t));
    template_peaks_offset_ = take(products, sizeof(std::uint32_t));
    // cuFFT takes no nullptr, even if no plan needs a work area.
    std::size_t work_bytes = 256;
    for (const cufft_plan& plan : plans_) {
      work_bytes = std::max(work_bytes, plan.work_bytes());
    }
    work_offset_ = take(1, work_bytes);
    scratch_bytes_ = end;
    if (!settings_.coefficients.empty()) {
      keep_spectra();
    }
    load_measures();
  }

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override { return scratch_bytes_; }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    const std::int64_t blocks = settings_.rows.count(arguments.extent) * blocks_.count;
    for (std::int64_t first = 0; first < blocks; first += blocks_per_pass_) {
      const std::int64_t count = std::min(blocks_per_pass_, blocks - first);
      for (std::int64_t first_of_bank = 0; first_of_bank < settings_.bank; first_of_bank += bank_per_pass_) {
        const spectrum_choice choice = choice_of(arguments, first, first_of_bank);
        if (!kept_) {
          if (const fault failed = transform_templates(stream, arguments, choice, count)) {
            return failed;
          }
        }
        if (first_of_bank == 0) {
          if (const fault failed = transform_samples(stream, arguments, first, count)) {
            return failed;
          }
        }
        if (const fault failed = correlate_blocks_of_pass(stream, arguments, choice, count)) {
          return failed;
        }
      }
    }
    return {};
  }

 private:
  /// The parameter's templates.
  struct kept_templates {
    device_array<float> taps;
    device_array<float2> spectra;
    device_array<std::uint32_t> peaks;
  };

  /// Once for all runs. Throws std::runtime_error.
  void keep_spectra() {
    device_array<float> taps{std::span<const float>{settings_.coefficients}};
    device_array<std::byte> scratch{scratch_bytes_};
    immediate_queue now;
    std::vector<float2> spectra(static_cast<std::size_t>(settings_.bank * bins()));
    std::vector<std::uint32_t> peaks(static_cast<std::size_t>(settings_.bank));
    const std::int64_t most = plans_.back().rows();
    for (std::int64_t first = 0; first < settings_.bank; first += most) {
      const std::int64_t count = std::min(most, settings_.bank - first);
      const fault failed = transform_rows(&now, taps.data(), first, count, scratch.data());
      if (failed) {
        throw std::runtime_error(std::string("could not transform the template: ") + failed.name);
      }
      require_cuda(cudaMemcpy(spectra.data() + first * bins(), scratch.data() + templates_offset_,
                              static_cast<std::size_t>(count * bins()) * sizeof(float2), cudaMemcpyDeviceToHost),
                   "transform the template");
      require_cuda(cudaMemcpy(peaks.data() + first, scratch.data() + template_peaks_offset_,
                              static_cast<std::size_t>(count) * sizeof(std::uint32_t), cudaMemcpyDeviceToHost),
                   "transform the template");
    }
    kept_.emplace(kept_templates{std::move(taps), device_array<float2>{std::span<const float2>{spectra}},
                                 device_array<std::uint32_t>{std::span<const std::uint32_t>{peaks}}});
  }

  [[nodiscard]] std::size_t sample_bytes() const noexcept { return complex_ ? sizeof(float2) : sizeof(float); }
  /// From one block's spectrum to the next.
  [[nodiscard]] std::int64_t bins() const noexcept { return complex_ ? blocks_.length : blocks_.bins(); }
  [[nodiscard]] std::int64_t max_products_per_pass() const noexcept {
    return std::max<std::int64_t>(pass_bytes / (blocks_.length * static_cast<std::int64_t>(sample_bytes())), 1);
  }
  [[nodiscard]] std::int64_t pieces() const noexcept { return divide_up(blocks_.length, piece_for(taps())); }
  [[nodiscard]] std::int64_t taps() const noexcept { return settings_.template_length; }
  [[nodiscard]] block_pieces signal_pieces(std::byte* scratch) const noexcept {
    return {reinterpret_cast<std::uint32_t*>(scratch + peaks_offset_), pieces(), piece_for(taps())};
  }
  [[nodiscard]] block_pieces template_pieces(std::byte* scratch) const noexcept {
    return {reinterpret_cast<std::uint32_t*>(scratch + template_peaks_offset_), 1, taps()};
  }
  [[nodiscard]] block_rows signal_rows() const noexcept {
    return {settings_.length, settings_.start(), blocks_.step, blocks_.count};
  }
  /// For `blocks` of `length` each; a thread takes several places of a block.
  [[nodiscard]] dim3 grid_for(std::int64_t length, std::int64_t blocks) const noexcept {
    const dim3 across = grid_of(divide_up(length, 8 * block_threads), most_blocks(multiprocessors_));
    return dim3(across.x,
                grid_of(blocks, std::min<std::int64_t>(divide_up(most_blocks(multiprocessors_), across.x), 65535)).x);
  }
  [[nodiscard]] spectrum_choice choice_of(const operation_arguments& arguments, std::int64_t first,
                                          std::int64_t first_of_bank) const noexcept {
    const std::int64_t blocks_per_template = settings_.rows_per_template(arguments.extent) * blocks_.count;
    return {first,
            blocks_per_template,
            first / blocks_per_template,
            std::min(bank_per_pass_, settings_.bank - first_of_bank),
            first_of_bank,
            kept_ ? first_of_bank : 0};
  }

  /// The first `count` of what lies at `from` in the scratch; `into` may be the same place for complex rows.
  fault transform(void* stream, std::byte* scratch, std::size_t from, std::size_t into,
                  std::int64_t count) const noexcept {
    const auto plan =
        std::find_if(plans_.begin(), plans_.end(), [=](const cufft_plan& p) { return p.rows() >= count; });
    if (plan == plans_.end()) {
      return fault{"cudaErrorInvalidValue"};
    }
    return plan->run(stream, scratch + work_offset_, scratch + from, scratch + into);
  }

  /// Which of them a batch has depends on its pieces and templates.
  void load_measures() const {
    load_kernel(&measure_blocks<warp_threads, float>);
    load_kernel(&measure_blocks<block_threads, float>);
    load_kernel(&measure_blocks<warp_threads, float2>);
    load_kernel(&measure_blocks<block_threads, float2>);
  }

  template <class In>
  fault measure(void* stream, const In* from, const block_rows& rows, std::int64_t first, const block_pieces& into,
                std::int64_t blocks) const noexcept {
    const bool by_warp = into.piece <= 1024;
    const std::int64_t teams = by_warp ? block_warps : 1;
    const dim3 grid(grid_of(divide_up(into.pieces, teams), most_blocks(multiprocessors_)).x,
                    grid_of(blocks, max_grid_rows).x);
    return launch(stream, grid, dim3(block_threads),
                  by_warp ? &measure_blocks<warp_threads, In> : &measure_blocks<block_threads, In>, from, rows, first,
                  blocks_.length, into, blocks);
  }

  template <class In>
  fault load(void* stream, const void* input, const block_rows& rows, std::int64_t first, std::byte* samples,
             const block_pieces& pieces, std::int64_t blocks) const noexcept {
    const int most = rows.blocks == 1 && rows.step == 0 ? max_template_exponent : max_exponent;
    const dim3 grid = grid_for(blocks_.length, blocks);
    const auto* const from = static_cast<const In*>(input);
    if (const fault failed = measure(stream, from, rows, first, pieces, blocks)) {
      return failed;
    }
    if constexpr (sizeof(In) == sizeof(float)) {
      if (!complex_) {
        return launch(stream, grid, dim3(block_threads), &load_blocks<In, float>, from, rows, first, blocks_.length,
                      pieces, most, reinterpret_cast<float*>(samples), blocks);
      }
    }
    return launch(stream, grid, dim3(block_threads), &load_blocks<In, float2>, from, rows, first, blocks_.length,
                  pieces, most, reinterpret_cast<float2*>(samples), blocks);
  }

  /// The spectra of the templates that the pass's blocks meet, which are no more than its products: of several blocks
  /// each meets the whole bank.
  fault transform_templates(void* stream, const operation_arguments& arguments, const spectrum_choice& choice,
                            std::int64_t blocks) const noexcept {
    const std::int64_t last_group = (choice.first_block + blocks - 1) / choice.blocks_per_template;
    const std::int64_t needed = (last_group - choice.first_group) * settings_.bank + choice.bank;
    return transform_rows(stream, arguments.inputs[1], choice.first_group * settings_.bank + choice.first_of_bank,
                          needed, static_cast<std::byte*>(arguments.scratch));
  }

  /// Templates `first` … first + count - 1. They lie where the products will.
  fault transform_rows(void* stream, const void* templates, std::int64_t first, std::int64_t count,
                       std::byte* scratch) const noexcept {
    const block_rows rows{taps(), 0, 0, 1};
    const block_pieces pieces = template_pieces(scratch);
    std::byte* const samples = scratch + products_offset_;
    if (const fault failed = settings_.complex_template
                                 ? load<float2>(stream, templates, rows, first, samples, pieces, count)
                                 : load<float>(stream, templates, rows, first, samples, pieces, count)) {
      return failed;
    }
    return transform(stream, scratch, products_offset_, templates_offset_, count);
  }

  fault transform_samples(void* stream, const operation_arguments& arguments, std::int64_t first,
                          std::int64_t count) const noexcept {
    auto* const scratch = static_cast<std::byte*>(arguments.scratch);
    const void* const signal = arguments.inputs[0];
    const block_pieces pieces = signal_pieces(scratch);
    std::byte* const samples = scratch + samples_offset_;
    if (const fault failed = settings_.complex_signal
                                 ? load<float2>(stream, signal, signal_rows(), first, samples, pieces, count)
                                 : load<float>(stream, signal, signal_rows(), first, samples, pieces, count)) {
      return failed;
    }
    return transform(stream, scratch, samples_offset_, spectra_offset_, count);
  }

  fault correlate_blocks_of_pass(void* stream, const operation_arguments& arguments, const spectrum_choice& choice,
                                 std::int64_t blocks) const noexcept {
    auto* const scratch = static_cast<std::byte*>(arguments.scratch);
    const std::int64_t products = blocks * choice.bank;
    if (const fault failed = multiply(stream, scratch, choice, products)) {
      return failed;
    }
    if (const fault failed = transform(stream, scratch, products_offset_, results_offset_, products)) {
      return failed;
    }
    if (settings_.complex_signal) {
      return settings_.complex_template ? store<float2, float2, float2>(stream, arguments, choice, products)
                                        : store<float2, float, float2>(stream, arguments, choice, products);
    }
    return settings_.complex_template ? store<float, float2, float2>(stream, arguments, choice, products)
                                      : store<float, float, float>(stream, arguments, choice, products);
  }

  fault multiply(void* stream, std::byte* scratch, const spectrum_choice& choice,
                 std::int64_t products) const noexcept {
    const dim3 grid = grid_for(bins(), products);
    const float scale = 1.0F / static_cast<float>(blocks_.length);
    const auto* const spectra = reinterpret_cast<const float2*>(scratch + spectra_offset_);
    const auto* const templates =
        kept_ ? kept_->spectra.data() : reinterpret_cast<const float2*>(scratch + templates_offset_);
    std::byte* const into = scratch + products_offset_;
    if (complex_) {
      return launch(stream, grid, dim3(block_threads), &multiply_complex, spectra, templates, choice, blocks_.length,
                    scale, reinterpret_cast<float2*>(into), products);
    }
    return launch(stream, grid, dim3(block_threads), &multiply_real, spectra, templates, choice, blocks_.length, scale,
                  reinterpret_cast<float*>(into), products);
  }

  template <class In, class Tap, class Result>
  fault store(void* stream, const operation_arguments& arguments, const spectrum_choice& choice,
              std::int64_t products) const noexcept {
    auto* const scratch = static_cast<std::byte*>(arguments.scratch);
    const auto* const spectra = reinterpret_cast<const float2*>(scratch + results_offset_);
    const summed_rows<In, Tap> from{
        static_cast<const In*>(arguments.inputs[0]),
        kept_ ? reinterpret_cast<const Tap*>(kept_->taps.data()) : static_cast<const Tap*>(arguments.inputs[1]),
        kept_ ? kept_->peaks.data() : template_pieces(scratch).peaks, taps(), settings_.bank};
    return launch(stream, grid_for(blocks_.step, products), dim3(block_threads), &store_blocks<In, Tap, Result>,
                  spectra, signal_rows(), choice, blocks_.length, bins(), settings_.results, signal_pieces(scratch),
                  from, static_cast<Result*>(arguments.output), products);
  }

  const correlate_settings settings_;
  const overlap_save_blocks blocks_;
  const bool complex_;  ///< the transforms are of complex rows
  const std::int64_t multiprocessors_;
  const std::int64_t bank_per_pass_;  ///< all of it where a pass has several blocks
  const std::int64_t blocks_per_pass_;
  const std::vector<cufft_plan> plans_;  ///< by rows, the last holds the most
  std::optional<kept_templates> kept_;   ///< of the parameter
  std::size_t samples_offset_ = 0;
  std::size_t spectra_offset_ = 0;
  std::size_t products_offset_ = 0;
  std::size_t results_offset_ = 0;
  std::size_t templates_offset_ = 0;
  std::size_t peaks_offset_ = 0;
  std::size_t template_peaks_offset_ = 0;
  std::size_t work_offset_ = 0;
  std::size_t scratch_bytes_ = 0;
};

/// Above this number of terms "auto" uses the transform. Up to here the fused multiply-adds of the sum, two of three
/// cycles of which do arithmetic, take about as long as the memory traffic of the transforms (about 50 bytes a result)
/// on an H200.
constexpr std::int64_t max_direct_terms = 256;

/// Neighbouring results of a thread, and taps of a step: the samples of one 16-byte load.
constexpr int quad = 4;
/// Taps that are in shared memory at a time.
constexpr int chunk_taps = 256;

struct direct_rows {
  std::int64_t count;  ///< of results
  std::int64_t rows_per_template;
  std::int64_t length;
  std::int64_t taps;
  std::int64_t results;
  std::int64_t start;  ///< correlate_settings::start()
  std::int64_t tiles;  ///< of each row of results
  std::int64_t bank;   ///< templates that a row meets
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

/// Elements first … first + filled - 1 of a row of `length` elements into their parts, divided by a power of two; zeros
/// beyond its ends.
template <int Threads, class T, bool Complex = is_complex_element<T>>
__device__ __forceinline__ void load_parts(const T* __restrict__ row, std::int64_t length, std::int64_t first,
                                           int filled, int exponent, float* re, float* im) {
  for (int at = static_cast<int>(threadIdx.x); at < filled; at += Threads) {
    const std::int64_t from = first + at;
    T value{};
    if (from >= 0 && from < length) {
      value = scaled(row[from], -exponent);
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
    const float factor = sign * h[tap];
#pragma unroll
    for (int result = 0; result < quad; ++result) {
      sums[result] = fmaf(x[tap + result], factor, sums[result]);
    }
  }
}

/// `source` lies in shared memory, aligned to 16 bytes.
__device__ __forceinline__ void load_quad(const float* source, float* destination) {
  const float4 loaded = *reinterpret_cast<const float4*>(source);
  destination[0] = loaded.x;
  destination[1] = loaded.y;
  destination[2] = loaded.z;
  destination[3] = loaded.w;
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

/// The power of two by which a template is divided: with one near 1 no product leaves f32's range sooner than its
/// sample is near the end of it.
template <int Threads, class Template>
__device__ __forceinline__ int template_exponent(const Template* __restrict__ taps, std::int64_t count) {
  std::uint32_t peak = 0;
  for (std::int64_t at = threadIdx.x; at < count; at += Threads) {
    peak = joined_peaks(peak, peak_of(taps[at]));
  }
#pragma unroll
  for (int apart = warp_threads / 2; apart > 0; apart /= 2) {
    peak = joined_peaks(peak, __shfl_xor_sync(0xffffffffU, peak, apart));
  }
  if constexpr (Threads > warp_threads) {
    __shared__ std::uint32_t warp_peaks[Threads / warp_threads];
    if (threadIdx.x % warp_threads == 0) {
      warp_peaks[threadIdx.x / warp_threads] = peak;
    }
    __syncthreads();
    for (int warp = 0; warp < Threads / warp_threads; ++warp) {
      peak = joined_peaks(peak, warp_peaks[warp]);
    }
    __syncthreads();
  }
  return exponent_for(peak, max_template_exponent);
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
    const std::int64_t result_row = item / rows.tiles;
    const std::int64_t row = result_row / rows.bank;
    const std::int64_t first = (item - result_row * rows.tiles) * tile;
    const Signal* const samples = signal + row * rows.length;
    const Template* const taps =
        templates + (row / rows.rows_per_template * rows.bank + result_row % rows.bank) * rows.taps;
    const int exponent = template_exponent<Threads>(taps, rows.taps);
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
      load_parts<Threads>(samples, rows.length, rows.start + first + chunk, tile + (used + quad - 1) / quad * quad, 0,
                          x_re.at, x_im.at);
      load_parts<Threads>(taps, to, chunk, chunk_taps, exponent, h_re.at, h_im.at);
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
      re[result] = static_cast<float>(scalbn(re_total[result], exponent));
      im[result] = static_cast<float>(scalbn(im_total[result], exponent));
    }
    store_tile<Threads>(re, im, x_re.at, x_im.at, count, output + result_row * rows.results + first);
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
      kept_.emplace(std::span<const float>(settings_.coefficients));
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
    const direct_rows rows{settings_.rows.count(arguments.extent) * settings_.bank,
                           settings_.rows_per_template(arguments.extent),
                           settings_.length,
                           settings_.template_length,
                           settings_.results,
                           settings_.start(),
                           divide_up(settings_.results, quad * Threads),
                           settings_.bank};
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
  std::optional<device_array<float>> kept_;  ///< the parameter's templates
};

}  // namespace

std::unique_ptr<operation> make_correlate_cuda(const operation_request& request) {
  correlate_settings settings = parse_correlate(request.settings, request.inputs);
  if (settings.method == sum_method::direct ||
      (settings.method == sum_method::automatic && settings.terms() <= max_direct_terms)) {
    if (settings.complex_template) {
      return std::make_unique<correlate_direct_cuda<float2>>(std::move(settings));
    }
    return std::make_unique<correlate_direct_cuda<float>>(std::move(settings));
  }
  const batch_extent most{.frames = request.max_frames, .leading = request.inputs[0].shape.front()};
  return std::make_unique<correlate_fft_cuda>(std::move(settings), most);
}

}  // namespace penstock

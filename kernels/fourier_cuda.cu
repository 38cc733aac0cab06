#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/cufft.hpp"
#include "kernels/fourier.hpp"
#include "kernels/launch.cuh"

namespace penstock {
namespace {

/// Rows of a pass before or behind cuFFT. Columns lie along x, rows along y, in grid and block.
struct row_pass {
  std::int64_t rows = 0;
  std::int64_t from = 0;    ///< elements of a row of the source
  std::int64_t to = 0;      ///< of the target
  std::int64_t length = 0;  ///< N
  std::int64_t shift = 0;   ///< of an inverse: where the source has bin 0; else where the target has it
  float scale = 1.0F;
};

[[nodiscard]] __device__ __forceinline__ std::int64_t first_column() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
[[nodiscard]] __device__ __forceinline__ std::int64_t first_row() {
  return static_cast<std::int64_t>(blockIdx.y) * blockDim.y + threadIdx.y;
}
[[nodiscard]] __device__ __forceinline__ std::int64_t row_stride() {
  return static_cast<std::int64_t>(gridDim.y) * blockDim.y;
}

[[nodiscard]] __device__ __forceinline__ float2 scaled(float2 value, float factor) {
  return make_float2(factor * value.x, factor * value.y);
}
[[nodiscard]] __device__ __forceinline__ float2 conjugate(float2 value) {
  return make_float2(value.x, -value.y);
}

__global__ void __launch_bounds__(block_threads)
    widen_rows(const float* __restrict__ input, float2* __restrict__ output, row_pass pass) {
  const std::int64_t at = first_column();
  if (at >= pass.to) {
    return;
  }
  for (std::int64_t row = first_row(); row < pass.rows; row += row_stride()) {
    output[row * pass.to + at] = make_float2(input[row * pass.from + at], 0.0F);
  }
}

/// Bins of forward transforms to where they stand. Those that a row does not have mirror the others.
__global__ void __launch_bounds__(block_threads)
    place_bins(const float2* __restrict__ spectra, float2* __restrict__ output, row_pass pass) {
  const std::int64_t at = first_column();
  if (at >= pass.to) {
    return;
  }
  const std::int64_t bin = at < pass.shift ? at - pass.shift + pass.length : at - pass.shift;
  const bool mirrors = bin >= pass.from;
  for (std::int64_t row = first_row(); row < pass.rows; row += row_stride()) {
    const float2 value = scaled(spectra[row * pass.from + (mirrors ? pass.length - bin : bin)], pass.scale);
    output[row * pass.to + at] = mirrors ? conjugate(value) : value;
  }
}

/// Whole spectra in the order that cuFFT takes.
__global__ void __launch_bounds__(block_threads)
    take_bins(const float2* __restrict__ input, float2* __restrict__ spectra, row_pass pass) {
  const std::int64_t bin = first_column();
  if (bin >= pass.to) {
    return;
  }
  const std::int64_t at = bin + pass.shift < pass.length ? bin + pass.shift : bin + pass.shift - pass.length;
  for (std::int64_t row = first_row(); row < pass.rows; row += row_stride()) {
    spectra[row * pass.to + bin] = scaled(input[row * pass.from + at], pass.scale);
  }
}

/// Halves of spectra; where the target has whole ones, the other bins mirror them.
__global__ void __launch_bounds__(block_threads)
    take_half(const float2* __restrict__ input, float2* __restrict__ spectra, row_pass pass) {
  const std::int64_t bin = first_column();
  if (bin >= pass.to) {
    return;
  }
  const bool mirrors = bin > pass.length / 2;
  const std::int64_t at = mirrors ? pass.length - bin : bin;
  const bool is_real = at == 0 || 2 * at == pass.length;
  for (std::int64_t row = first_row(); row < pass.rows; row += row_stride()) {
    float2 value = make_float2(0.0F, 0.0F);
    if (at < pass.from) {
      value = scaled(input[row * pass.from + at], pass.scale);
      value.y = is_real ? 0.0F : mirrors ? -value.y : value.y;
    }
    spectra[row * pass.to + bin] = value;
  }
}

__global__ void __launch_bounds__(block_threads)
    take_real_parts(const float2* __restrict__ rows, float* __restrict__ output, row_pass pass) {
  const std::int64_t at = first_column();
  if (at >= pass.to) {
    return;
  }
  for (std::int64_t row = first_row(); row < pass.rows; row += row_stride()) {
    output[row * pass.to + at] = rows[row * pass.from + at].x;
  }
}

[[nodiscard]] constexpr std::size_t aligned(std::size_t bytes) noexcept {
  return (bytes + 255) / 256 * 256;
}

/// cuFFT transforms two real rows of odd length as one complex row, which may be another client's: see power_spectrum.
[[nodiscard]] cufft_plan::kind kind_of(const fourier_settings& settings) noexcept {
  const bool by_half = settings.length % 2 == 0;
  if (settings.inverse) {
    return settings.half && by_half ? cufft_plan::kind::complex_to_real : cufft_plan::kind::complex_inverse;
  }
  return !settings.complex_input && by_half ? cufft_plan::kind::real_to_complex : cufft_plan::kind::complex_to_complex;
}

/// A cuFFT plan has a fixed number of rows: the most, and each power of two below. A batch is transformed in pieces.
std::vector<cufft_plan> make_plans(const fourier_settings& settings, std::int64_t max_rows) {
  const std::shared_ptr<const cufft_library> library = cufft_library::load();
  std::vector<cufft_plan> plans;
  for (std::int64_t rows = 1; rows < max_rows; rows *= 2) {
    plans.emplace_back(library, kind_of(settings), settings.length, rows);
  }
  plans.emplace_back(library, kind_of(settings), settings.length, max_rows);
  return plans;
}

/// A pass that puts the input in cuFFT's order and scales it, cuFFT, and a pass that puts its result in order; the
/// passes only where they are needed. What lies between them is in the scratch.
class fourier_cuda final : public operation {
 public:
  fourier_cuda(fourier_settings settings, std::int64_t max_frames)
      : settings_{std::move(settings)},
        kind_{kind_of(settings_)},
        multiprocessors_{multiprocessor_count()},
        plans_{make_plans(settings_, settings_.rows.count({max_frames, settings_.input.shape.front()}))} {
    // The scratch never holds more than whole spectra of all rows.
    work_offset_ = has_pass_before() || has_pass_behind()
                       ? aligned(static_cast<std::size_t>(plans_.back().rows() * settings_.length) * sizeof(float2) +
                                 static_cast<std::size_t>(plans_.back().rows()) * 2 * sizeof(float2))
                       : 0;
    // cuFFT takes no nullptr, even if no plan needs a work area.
    std::size_t work_bytes = 256;
    for (const cufft_plan& plan : plans_) {
      work_bytes = std::max(work_bytes, plan.work_bytes());
    }
    scratch_bytes_ = work_offset_ + aligned(work_bytes);
  }

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override { return scratch_bytes_; }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    const std::int64_t rows = settings_.rows.count(arguments.extent);
    if (rows <= 0) {
      return {};
    }
    void* const scratch = arguments.scratch;
    if (has_pass_before()) {
      if (const fault failed = pass_before(stream, arguments.inputs[0], static_cast<float2*>(scratch), rows)) {
        return failed;
      }
    }
    void* const from = has_pass_before() ? scratch : const_cast<void*>(arguments.inputs[0]);
    void* const to = has_pass_behind() ? scratch : arguments.output;
    if (const fault failed = transform(stream, from, to, static_cast<std::byte*>(scratch) + work_offset_, rows)) {
      return failed;
    }
    return has_pass_behind() ? pass_behind(stream, static_cast<const float2*>(scratch), arguments.output, rows)
                             : fault{};
  }

 private:
  [[nodiscard]] bool widens() const noexcept { return !settings_.complex_input && settings_.length % 2 != 0; }
  [[nodiscard]] bool has_pass_before() const noexcept {
    return settings_.inverse ? settings_.half || !settings_.is_plain() : widens();
  }
  [[nodiscard]] bool has_pass_behind() const noexcept {
    if (settings_.inverse) {
      return settings_.half && kind_ == cufft_plan::kind::complex_inverse;
    }
    return !settings_.is_plain() || stored_bins() != settings_.bins;
  }
  /// Of a row of cuFFT's side of the spectrum.
  [[nodiscard]] std::int64_t stored_bins() const noexcept {
    const bool by_half = kind_ == cufft_plan::kind::real_to_complex || kind_ == cufft_plan::kind::complex_to_real;
    return by_half ? settings_.length / 2 + 1 : settings_.length;
  }

  fault transform(void* stream, void* from, void* to, void* work, std::int64_t rows) const noexcept {
    const std::size_t spectrum = static_cast<std::size_t>(stored_bins()) * sizeof(float2);
    const std::size_t samples = static_cast<std::size_t>(settings_.length) * sizeof(float);
    const std::size_t from_row = kind_ == cufft_plan::kind::real_to_complex ? samples : spectrum;
    const std::size_t to_row = kind_ == cufft_plan::kind::complex_to_real ? samples : spectrum;
    auto* source = static_cast<std::byte*>(from);
    auto* target = static_cast<std::byte*>(to);
    for (auto plan = plans_.rbegin(); plan != plans_.rend(); ++plan) {
      for (; rows >= plan->rows(); rows -= plan->rows()) {
        if (const fault failed = plan->run(stream, work, source, target)) {
          return failed;
        }
        source += static_cast<std::size_t>(plan->rows()) * from_row;
        target += static_cast<std::size_t>(plan->rows()) * to_row;
      }
    }
    return {};
  }

  fault pass_before(void* stream, const void* input, float2* scratch, std::int64_t rows) const noexcept {
    row_pass pass{.rows = rows,
                  .from = settings_.input.shape.back(),
                  .to = stored_bins(),
                  .length = settings_.length,
                  .shift = settings_.shift,
                  .scale = settings_.scale};
    if (!settings_.inverse) {
      return enqueue(stream, &widen_rows, static_cast<const float*>(input), scratch, pass);
    }
    return enqueue(stream, settings_.half ? &take_half : &take_bins, static_cast<const float2*>(input), scratch, pass);
  }

  fault pass_behind(void* stream, const float2* scratch, void* output, std::int64_t rows) const noexcept {
    row_pass pass{.rows = rows,
                  .from = stored_bins(),
                  .to = settings_.output.shape.back(),
                  .length = settings_.length,
                  .shift = settings_.shift,
                  .scale = settings_.scale};
    if (settings_.inverse) {
      return enqueue(stream, &take_real_parts, scratch, static_cast<float*>(output), pass);
    }
    return enqueue(stream, &place_bins, scratch, static_cast<float2*>(output), pass);
  }

  template <class From, class To>
  fault enqueue(void* stream, void (*kernel)(const From*, To*, row_pass), const From* from, To* to,
                const row_pass& pass) const noexcept {
    std::int64_t across = warp_threads;
    while (across < pass.to && across < block_threads) {
      across *= 2;
    }
    const std::int64_t down = block_threads / across;
    const std::int64_t columns = divide_up(pass.to, across);
    const std::int64_t most = std::clamp<std::int64_t>(most_blocks(multiprocessors_) / columns, 1, max_grid_rows);
    const dim3 grid(static_cast<unsigned>(columns), grid_of(divide_up(pass.rows, down), most).x);
    return launch(stream, grid, dim3(static_cast<unsigned>(across), static_cast<unsigned>(down)), kernel, from, to,
                  pass);
  }

  const fourier_settings settings_;
  const cufft_plan::kind kind_;
  const std::int64_t multiprocessors_;
  const std::vector<cufft_plan> plans_;  ///< by rows, the last holds the most
  std::size_t work_offset_ = 0;
  std::size_t scratch_bytes_ = 0;
};

}  // namespace

std::unique_ptr<operation> make_fft_cuda(const operation_request& request) {
  return std::make_unique<fourier_cuda>(parse_fft(request.settings, request.inputs[0]), request.max_frames);
}

std::unique_ptr<operation> make_ifft_cuda(const operation_request& request) {
  return std::make_unique<fourier_cuda>(parse_ifft(request.settings, request.inputs[0]), request.max_frames);
}

}  // namespace penstock

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "kernels/cufft.hpp"
#include "kernels/elementwise.cuh"
#include "kernels/launch.cuh"
#include "kernels/power_spectrum.hpp"
#include "kernels/row_window.cuh"

namespace penstock {
namespace {

struct bin_power {
  __device__ float operator()(float2 bin, int /*component*/) const { return fmaf(bin.x, bin.x, bin.y * bin.y); }
};

/// The squares are of parts that are divided by the larger one's power of two.
struct bin_decibels {
  float mantissa;
  int twos;
  float floor;

  __device__ float operator()(float2 bin, int component) const {
    const unsigned larger = max(__float_as_uint(bin.x) & 0x7fffffffU, __float_as_uint(bin.y) & 0x7fffffffU);
    const unsigned exponent = min(larger & 0x7f800000U, 0x7e800000U);
    const float down = __uint_as_float(0x7f000000U - exponent);
    const float power = mantissa * bin_power{}(make_float2(bin.x * down, bin.y * down), component);
    const int all_twos = 2 * (static_cast<int>(exponent >> 23) - 127) + twos;
    const float octaves = log2f(power) + static_cast<float>(all_twos);
    const float level = 3.01029996F * octaves;
    // Not fmaxf: a NaN must come through.
    return level < floor ? floor : level;
  }
};

/// Real rows become complex ones: output[row, k] = weights[k] · input[row, k] + 0j.
__global__ void __launch_bounds__(block_threads)
    weigh_into_complex(const float* __restrict__ input, const float* __restrict__ weights, float2* __restrict__ output,
                       std::int64_t length, std::int64_t count) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * block_threads;
  for (std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * block_threads + threadIdx.x; at < count;
       at += stride) {
    output[at] = make_float2(weights[at % length] * input[at], 0.0F);
  }
}

/// The first `bins` of each row's `length` bins: the others mirror them when the row was real.
template <class Power>
__global__ void __launch_bounds__(block_threads)
    first_powers(const float2* __restrict__ spectra, float* __restrict__ output, std::int64_t length, std::int64_t bins,
                 std::int64_t count, Power power) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * block_threads;
  for (std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * block_threads + threadIdx.x; at < count;
       at += stride) {
    output[at] = power(spectra[at / bins * length + at % bins], 0);
  }
}

/// cuFFT transforms two real rows of odd length as one complex row. A NaN in one frame, or its rounding if it is far
/// louder, would reach the other, which may be another client's. So such rows are transformed as complex ones.
[[nodiscard]] bool goes_as_complex(const power_spectrum_settings& settings) noexcept {
  return settings.complex_input || settings.length % 2 != 0;
}

[[nodiscard]] constexpr std::size_t aligned(std::size_t bytes) noexcept {
  return (bytes + 255) / 256 * 256;
}

/// A cuFFT plan has a fixed number of rows. There is one for each power of two below the maximum, and one for the
/// maximum. A batch uses the smallest that holds it; the other rows of the scratch are transformed for nothing.
std::vector<cufft_plan> make_plans(const power_spectrum_settings& settings, std::int64_t max_rows) {
  const std::shared_ptr<const cufft_library> library = cufft_library::load();
  const auto kind =
      goes_as_complex(settings) ? cufft_plan::kind::complex_to_complex : cufft_plan::kind::real_to_complex;
  std::vector<cufft_plan> plans;
  for (std::int64_t rows = 1; rows < max_rows; rows *= 2) {
    plans.emplace_back(library, kind, settings.length, rows);
  }
  plans.emplace_back(library, kind, settings.length, max_rows);
  return plans;
}

/// Window → cuFFT → |X|². The scratch holds the windowed rows (complex ones are transformed in place), the spectra of
/// real rows, and cuFFT's work area, for the most rows each.
class power_spectrum_cuda final : public operation {
 public:
  power_spectrum_cuda(power_spectrum_settings settings, std::int64_t max_frames)
      : settings_{std::move(settings)},
        weights_{std::span<const float>(settings_.coefficients)},
        multiprocessors_{multiprocessor_count()},
        plans_{make_plans(settings_, settings_.rows.count({max_frames, settings_.input.shape.front()}))} {
    const auto max_rows = static_cast<std::size_t>(plans_.back().rows());
    const auto length = static_cast<std::size_t>(settings_.length);
    const auto bins = static_cast<std::size_t>(in_place_ ? settings_.length : settings_.bins);
    spectra_offset_ = in_place_ ? 0 : aligned(max_rows * length * sizeof(float));
    work_offset_ = spectra_offset_ + aligned(max_rows * bins * sizeof(float2));
    // cuFFT takes no nullptr, even if no plan needs a work area.
    std::size_t work_bytes = 256;
    for (const cufft_plan& plan : plans_) {
      work_bytes = std::max(work_bytes, plan.work_bytes());
    }
    scratch_bytes_ = work_offset_ + aligned(work_bytes);
  }

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override { return scratch_bytes_; }

  [[nodiscard]] bool single_pass() const noexcept override { return true; }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    const std::int64_t rows = settings_.rows.count(arguments.extent);
    const auto plan = std::find_if(plans_.begin(), plans_.end(), [&](const cufft_plan& p) { return p.rows() >= rows; });
    if (plan == plans_.end()) {
      return fault{"cudaErrorInvalidValue"};
    }
    if (rows <= 0) {
      return {};
    }
    if (const fault failed = enqueue_weights(stream, arguments, rows)) {
      return failed;
    }
    auto* const scratch = static_cast<std::byte*>(arguments.scratch);
    if (const fault failed = plan->run(stream, scratch + work_offset_, scratch, scratch + spectra_offset_)) {
      return failed;
    }
    const auto* const spectra = reinterpret_cast<const float2*>(scratch + spectra_offset_);
    auto* const output = static_cast<float*>(arguments.output);
    return settings_.decibels ? enqueue_powers(stream, spectra, output, rows,
                                               bin_decibels{scale_.mantissa, scale_.exponent, settings_.floor})
                              : enqueue_powers(stream, spectra, output, rows, bin_power{});
  }

 private:
  template <class T>
  fault weigh(void* stream, const operation_arguments& arguments, std::int64_t rows) noexcept {
    return enqueue_weigh_rows(stream, multiprocessors_, static_cast<const T*>(arguments.inputs[0]), weights_.data(),
                              static_cast<T*>(arguments.scratch), settings_.length, rows);
  }

  fault enqueue_weights(void* stream, const operation_arguments& arguments, std::int64_t rows) noexcept {
    if (settings_.complex_input) {
      return weigh<float2>(stream, arguments, rows);
    }
    if (!in_place_) {
      return weigh<float>(stream, arguments, rows);
    }
    const std::int64_t count = rows * settings_.length;
    return launch(stream, grid_for(count), dim3(block_threads), &weigh_into_complex,
                  static_cast<const float*>(arguments.inputs[0]), weights_.data(),
                  static_cast<float2*>(arguments.scratch), settings_.length, count);
  }

  template <class Power>
  fault enqueue_powers(void* stream, const float2* spectra, float* output, std::int64_t rows, Power power) noexcept {
    const std::int64_t count = rows * settings_.bins;
    if (settings_.complex_input || !in_place_) {
      return enqueue_map<2>(stream, multiprocessors_, spectra, output, count, power);
    }
    return launch(stream, grid_for(count), dim3(block_threads), &first_powers<Power>, spectra, output, settings_.length,
                  settings_.bins, count, power);
  }

  [[nodiscard]] dim3 grid_for(std::int64_t count) const noexcept {
    return grid_of(divide_up(count, block_threads), most_blocks(multiprocessors_));
  }

  const power_spectrum_settings settings_;
  const power_factor scale_{settings_.power_scale};
  const bool in_place_ = goes_as_complex(settings_);
  const device_array<float> weights_;
  const std::int64_t multiprocessors_;
  const std::vector<cufft_plan> plans_;  ///< by rows, the last holds the most
  std::size_t spectra_offset_ = 0;
  std::size_t work_offset_ = 0;
  std::size_t scratch_bytes_ = 0;
};

}  // namespace

std::unique_ptr<operation> make_power_spectrum_cuda(const operation_request& request) {
  return std::make_unique<power_spectrum_cuda>(parse_power_spectrum(request.settings, request.inputs[0]),
                                               request.max_frames);
}

}  // namespace penstock

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "kernels/cufft.hpp"
#include "kernels/device_array.cuh"
#include "kernels/elementwise.cuh"
#include "kernels/power_spectrum.hpp"
#include "kernels/row_window.cuh"

namespace penstock {
namespace {

struct bin_power {
  __device__ float operator()(float2 bin, int /*component*/) const { return fmaf(bin.x, bin.x, bin.y * bin.y); }
};

struct bin_decibels {
  float scale;

  __device__ float operator()(float2 bin, int component) const {
    const float power = scale * bin_power{}(bin, component);
    // Not fmaxf: a NaN must come through.
    return 10.0F * log10f(power < power_spectrum_floor ? power_spectrum_floor : power);
  }
};

[[nodiscard]] constexpr std::size_t aligned(std::size_t bytes) noexcept {
  return (bytes + 255) / 256 * 256;
}

/// A cuFFT plan has a fixed number of rows, and batches have any: there is a plan for each power of two below the most
/// rows, and one for the most. A batch takes the smallest that holds it; the rows beyond its own are whatever lies in
/// the scratch, transformed for nothing.
std::vector<cufft_plan> make_plans(const power_spectrum_settings& settings, std::int64_t most_rows) {
  const std::shared_ptr<const cufft_library> library = cufft_library::load();
  const auto kind = settings.complex_input ? cufft_plan::kind::complex_to_complex : cufft_plan::kind::real_to_complex;
  std::vector<cufft_plan> plans;
  for (std::int64_t rows = 1; rows < most_rows; rows *= 2) {
    plans.emplace_back(library, kind, settings.length, rows);
  }
  plans.emplace_back(library, kind, settings.length, most_rows);
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
    const auto most_rows = static_cast<std::size_t>(plans_.back().rows());
    const auto length = static_cast<std::size_t>(settings_.length);
    const auto bins = static_cast<std::size_t>(settings_.bins);
    const std::size_t element = settings_.complex_input ? sizeof(float2) : sizeof(float);
    spectra_offset_ = settings_.complex_input ? 0 : aligned(most_rows * length * element);
    work_offset_ = spectra_offset_ + aligned(most_rows * bins * sizeof(float2));
    // Some room even when no plan needs any: cuFFT takes no nullptr.
    std::size_t work_bytes = 256;
    for (const cufft_plan& plan : plans_) {
      work_bytes = std::max(work_bytes, plan.work_bytes());
    }
    scratch_bytes_ = work_offset_ + aligned(work_bytes);
  }

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override { return scratch_bytes_; }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    const std::int64_t rows = settings_.rows.count(arguments.extent);
    const auto plan = std::find_if(plans_.begin(), plans_.end(), [&](const cufft_plan& p) { return p.rows() >= rows; });
    if (plan == plans_.end()) {
      return fault{"cudaErrorInvalidValue"};
    }
    if (rows <= 0) {
      return {};
    }
    if (const fault failed =
            settings_.complex_input ? weigh<float2>(stream, arguments, rows) : weigh<float>(stream, arguments, rows)) {
      return failed;
    }
    auto* const scratch = static_cast<std::byte*>(arguments.scratch);
    if (const fault failed = plan->run(stream, scratch + work_offset_, scratch, scratch + spectra_offset_)) {
      return failed;
    }
    return enqueue_powers(stream, reinterpret_cast<const float2*>(scratch + spectra_offset_),
                          static_cast<float*>(arguments.output), rows * settings_.bins);
  }

 private:
  template <class T>
  fault weigh(void* stream, const operation_arguments& arguments, std::int64_t rows) noexcept {
    return enqueue_weigh_rows(stream, multiprocessors_, static_cast<const T*>(arguments.inputs[0]), weights_.data(),
                              static_cast<T*>(arguments.scratch), settings_.length, rows);
  }

  fault enqueue_powers(void* stream, const float2* bins, float* output, std::int64_t count) noexcept {
    return settings_.decibels
               ? enqueue_map<2>(stream, multiprocessors_, bins, output, count, bin_decibels{settings_.power_scale})
               : enqueue_map<2>(stream, multiprocessors_, bins, output, count, bin_power{});
  }

  const power_spectrum_settings settings_;
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

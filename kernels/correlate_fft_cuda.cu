#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kernels/correlate.hpp"
#include "kernels/correlate_blocks.cuh"
#include "kernels/correlate_blocks.hpp"
#include "kernels/cufft.hpp"
#include "kernels/device_array.cuh"
#include "kernels/launch.cuh"

namespace penstock {
namespace {

[[nodiscard]] constexpr std::size_t aligned(std::size_t bytes) noexcept {
  return (bytes + 255) / 256 * 256;
}

/// Bytes of samples that go through all steps together: enough to fill the device, and not so many that the scratch
/// grows with the batch or that they leave the second-level cache between the steps.
constexpr std::int64_t pass_bytes = std::int64_t{16} << 20;

/// For each power of two below `most` and for `most`: a pass takes the smallest that holds it, and what lies in the
/// scratch behind its own blocks is transformed for nothing.
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

/// Pass after pass: measure, load, transform, multiply, transform, store (correlate_blocks.cuh). The scratch holds a
/// pass's samples, its spectra (complex samples are transformed in place), the templates' spectra, the peaks of both
/// and cuFFT's work area.
class correlate_fft_cuda final : public operation {
 public:
  correlate_fft_cuda(correlate_settings settings, const batch_extent& most)
      : settings_{std::move(settings)},
        blocks_{plan_correlate_blocks(settings_)},
        complex_{settings_.complex_output()},
        multiprocessors_{multiprocessor_count()},
        plans_{make_plans(blocks_.length, complex_, most_blocks_a_pass(most))} {
    const auto blocks = static_cast<std::size_t>(plans_.back().rows());
    const std::size_t samples = aligned(blocks * static_cast<std::size_t>(blocks_.length) * sample_bytes());
    const std::size_t spectra = aligned(blocks * static_cast<std::size_t>(bins()) * sizeof(float2));
    spectra_offset_ = complex_ ? 0 : samples;
    templates_offset_ = complex_ ? samples : samples + spectra;
    peaks_offset_ = templates_offset_ + spectra;
    template_peaks_offset_ =
        peaks_offset_ + aligned(blocks * static_cast<std::size_t>(pieces()) * sizeof(std::uint32_t));
    work_offset_ = template_peaks_offset_ + aligned(blocks * sizeof(std::uint32_t));
    // Some room even when no plan needs any: cuFFT takes no nullptr.
    std::size_t work_bytes = 256;
    for (const cufft_plan& plan : plans_) {
      work_bytes = std::max(work_bytes, plan.work_bytes());
    }
    scratch_bytes_ = work_offset_ + aligned(work_bytes);
    if (!settings_.coefficients.empty()) {
      keep_spectrum();
    }
    load_measures();
  }

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override { return scratch_bytes_; }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    const std::int64_t blocks = settings_.rows.count(arguments.extent) * blocks_.count;
    const std::int64_t most = plans_.back().rows();
    for (std::int64_t first = 0; first < blocks; first += most) {
      const std::int64_t count = std::min(most, blocks - first);
      if (!kept_) {
        if (const fault failed = transform_templates(stream, arguments, first, count)) {
          return failed;
        }
      }
      if (const fault failed = correlate_blocks_of_pass(stream, arguments, first, count)) {
        return failed;
      }
    }
    return {};
  }

 private:
  /// The parameter's template.
  struct kept_template {
    device_array<float> taps;
    device_array<float2> spectrum;
    device_array<std::uint32_t> peak;
  };

  /// Once for all runs. Throws std::runtime_error.
  void keep_spectrum() {
    device_array<float> taps{std::span<const float>{settings_.coefficients}};
    device_array<std::byte> scratch{scratch_bytes_};
    immediate_queue now;
    const fault failed = transform_rows(&now, taps.data(), 0, 1, scratch.data());
    if (failed) {
      throw std::runtime_error(std::string("could not transform the template: ") + failed.name);
    }
    std::vector<float2> spectrum(static_cast<std::size_t>(bins()));
    require_cuda(cudaMemcpy(spectrum.data(), scratch.data() + templates_offset_, spectrum.size() * sizeof(float2),
                            cudaMemcpyDeviceToHost),
                 "transform the template");
    std::uint32_t peak = 0;
    require_cuda(cudaMemcpy(&peak, scratch.data() + template_peaks_offset_, sizeof peak, cudaMemcpyDeviceToHost),
                 "transform the template");
    kept_.emplace(kept_template{std::move(taps), device_array<float2>{std::span<const float2>{spectrum}},
                                device_array<std::uint32_t>{std::span<const std::uint32_t>{&peak, 1}}});
  }

  [[nodiscard]] std::size_t sample_bytes() const noexcept { return complex_ ? sizeof(float2) : sizeof(float); }
  /// From one block's spectrum to the next.
  [[nodiscard]] std::int64_t bins() const noexcept { return complex_ ? blocks_.length : blocks_.bins(); }
  [[nodiscard]] std::int64_t most_blocks_a_pass(const batch_extent& most) const noexcept {
    const std::int64_t fitting = pass_bytes / (blocks_.length * static_cast<std::int64_t>(sample_bytes()));
    return std::clamp<std::int64_t>(fitting, 1, std::max<std::int64_t>(settings_.rows.count(most) * blocks_.count, 1));
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
    const dim3 across = grid_of(divide_up(length, 8 * block_threads), resident_blocks(multiprocessors_));
    return dim3(
        across.x,
        grid_of(blocks, std::min<std::int64_t>(divide_up(4 * resident_blocks(multiprocessors_), across.x), 65535)).x);
  }
  [[nodiscard]] spectrum_choice choice_of(const operation_arguments& arguments, std::int64_t first) const noexcept {
    const std::int64_t blocks_a_template = settings_.rows_a_template(arguments.extent) * blocks_.count;
    return {first, blocks_a_template, first / blocks_a_template};
  }

  /// The first of a `count` of blocks, transformed from the samples into the spectra.
  fault transform(void* stream, std::byte* scratch, std::size_t into, std::int64_t count) const noexcept {
    const auto plan =
        std::find_if(plans_.begin(), plans_.end(), [=](const cufft_plan& p) { return p.rows() >= count; });
    if (plan == plans_.end()) {
      return fault{"cudaErrorInvalidValue"};
    }
    return plan->run(stream, scratch + work_offset_, scratch, scratch + into);
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
    const dim3 grid(grid_of(divide_up(into.pieces, teams), resident_blocks(multiprocessors_)).x,
                    grid_of(blocks, most_grid_rows).x);
    return launch(stream, grid, dim3(block_threads),
                  by_warp ? &measure_blocks<warp_threads, In> : &measure_blocks<block_threads, In>, from, rows, first,
                  blocks_.length, into, blocks);
  }

  template <class In>
  fault load(void* stream, const void* input, const block_rows& rows, std::int64_t first, std::byte* scratch,
             const block_pieces& pieces, std::int64_t blocks) const noexcept {
    const int most = rows.blocks == 1 && rows.step == 0 ? most_template_exponent : most_exponent;
    const dim3 grid = grid_for(blocks_.length, blocks);
    const auto* const from = static_cast<const In*>(input);
    if (const fault failed = measure(stream, from, rows, first, pieces, blocks)) {
      return failed;
    }
    if constexpr (sizeof(In) == sizeof(float)) {
      if (!complex_) {
        return launch(stream, grid, dim3(block_threads), &load_blocks<In, float>, from, rows, first, blocks_.length,
                      pieces, most, reinterpret_cast<float*>(scratch), blocks);
      }
    }
    return launch(stream, grid, dim3(block_threads), &load_blocks<In, float2>, from, rows, first, blocks_.length,
                  pieces, most, reinterpret_cast<float2*>(scratch), blocks);
  }

  /// The spectra of the templates that the pass's blocks need, which are no more than its blocks.
  fault transform_templates(void* stream, const operation_arguments& arguments, std::int64_t first,
                            std::int64_t count) const noexcept {
    const spectrum_choice choice = choice_of(arguments, first);
    const std::int64_t last_template = (first + count - 1) / choice.blocks_a_template;
    const std::int64_t needed = last_template - choice.first_template + 1;
    return transform_rows(stream, arguments.inputs[1], choice.first_template, needed,
                          static_cast<std::byte*>(arguments.scratch));
  }

  fault transform_rows(void* stream, const void* templates, std::int64_t first, std::int64_t count,
                       std::byte* scratch) const noexcept {
    const block_rows rows{taps(), 0, 0, 1};
    const block_pieces pieces = template_pieces(scratch);
    if (const fault failed = settings_.complex_template
                                 ? load<float2>(stream, templates, rows, first, scratch, pieces, count)
                                 : load<float>(stream, templates, rows, first, scratch, pieces, count)) {
      return failed;
    }
    return transform(stream, scratch, templates_offset_, count);
  }

  fault correlate_blocks_of_pass(void* stream, const operation_arguments& arguments, std::int64_t first,
                                 std::int64_t count) const noexcept {
    auto* const scratch = static_cast<std::byte*>(arguments.scratch);
    const void* const signal = arguments.inputs[0];
    const block_pieces pieces = signal_pieces(scratch);
    if (const fault failed = settings_.complex_signal
                                 ? load<float2>(stream, signal, signal_rows(), first, scratch, pieces, count)
                                 : load<float>(stream, signal, signal_rows(), first, scratch, pieces, count)) {
      return failed;
    }
    if (const fault failed = transform(stream, scratch, spectra_offset_, count)) {
      return failed;
    }
    if (const fault failed = multiply(stream, scratch, choice_of(arguments, first), count)) {
      return failed;
    }
    if (const fault failed = transform(stream, scratch, spectra_offset_, count)) {
      return failed;
    }
    if (settings_.complex_signal) {
      return settings_.complex_template ? store<float2, float2, float2>(stream, arguments, first, count)
                                        : store<float2, float, float2>(stream, arguments, first, count);
    }
    return settings_.complex_template ? store<float, float2, float2>(stream, arguments, first, count)
                                      : store<float, float, float>(stream, arguments, first, count);
  }

  fault multiply(void* stream, std::byte* scratch, const spectrum_choice& choice, std::int64_t blocks) const noexcept {
    const dim3 grid = grid_for(bins(), blocks);
    const float scale = 1.0F / static_cast<float>(blocks_.length);
    auto* const spectra = reinterpret_cast<float2*>(scratch + spectra_offset_);
    const auto* const templates =
        kept_ ? kept_->spectrum.data() : reinterpret_cast<const float2*>(scratch + templates_offset_);
    if (complex_) {
      return launch(stream, grid, dim3(block_threads), &multiply_complex, spectra, templates, choice, blocks_.length,
                    scale, blocks);
    }
    return launch(stream, grid, dim3(block_threads), &multiply_real, spectra, templates, choice, blocks_.length, scale,
                  reinterpret_cast<float*>(scratch), blocks);
  }

  template <class In, class Tap, class Result>
  fault store(void* stream, const operation_arguments& arguments, std::int64_t first,
              std::int64_t blocks) const noexcept {
    auto* const scratch = static_cast<std::byte*>(arguments.scratch);
    const auto* const spectra = reinterpret_cast<const float2*>(scratch + spectra_offset_);
    const summed_rows<In, Tap> from{
        static_cast<const In*>(arguments.inputs[0]),
        kept_ ? reinterpret_cast<const Tap*>(kept_->taps.data()) : static_cast<const Tap*>(arguments.inputs[1]),
        kept_ ? kept_->peak.data() : template_pieces(scratch).peaks, taps()};
    return launch(stream, grid_for(blocks_.step, blocks), dim3(block_threads), &store_blocks<In, Tap, Result>, spectra,
                  signal_rows(), choice_of(arguments, first), blocks_.length, bins(), settings_.results,
                  signal_pieces(scratch), from, static_cast<Result*>(arguments.output), blocks);
  }

  const correlate_settings settings_;
  const correlate_blocks blocks_;
  const bool complex_;  ///< the transforms are of complex rows
  const std::int64_t multiprocessors_;
  const std::vector<cufft_plan> plans_;  ///< by blocks, the last holds the most
  std::optional<kept_template> kept_;    ///< of the parameter
  std::size_t spectra_offset_ = 0;
  std::size_t templates_offset_ = 0;
  std::size_t peaks_offset_ = 0;
  std::size_t template_peaks_offset_ = 0;
  std::size_t work_offset_ = 0;
  std::size_t scratch_bytes_ = 0;
};

}  // namespace

std::unique_ptr<operation> make_fft_correlate_cuda(correlate_settings settings, const batch_extent& most) {
  return std::make_unique<correlate_fft_cuda>(std::move(settings), most);
}

}  // namespace penstock

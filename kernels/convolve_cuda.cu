#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "kernels/convolution_steps.hpp"
#include "kernels/convolve.hpp"
#include "kernels/cudnn.hpp"
#include "kernels/half.hpp"
#include "kernels/launch.cuh"

namespace penstock {
namespace {

constexpr std::size_t aligned(std::size_t bytes) noexcept {
  return (bytes + 255) / 256 * 256;
}

/// Numbers of a file in memory of the current device, as `type`.
device_array<std::byte> upload(element_type type, const std::vector<float>& numbers) {
  std::vector<std::uint16_t> half;
  if (type == element_type::f32) {
    return device_array<std::byte>(std::as_bytes(std::span(numbers)));
  }
  for (const float each : numbers) {
    half.push_back(type == element_type::f16 ? to_half(each).bits : to_brain(each).bits);
  }
  return device_array<std::byte>(std::as_bytes(std::span<const std::uint16_t>(half)));
}

/// There is a convolution for each power of two of frames. A batch is computed by the largest that fits, as often as it
/// fits; the rest by the next that holds it, whose first frames are computed once more. So a batch takes two runs at
/// most where the largest convolution holds half of it or more.
class convolve_cuda final : public operation {
 public:
  convolve_cuda(convolve_settings settings, std::int64_t max_frames)
      : settings_(std::move(settings)),
        type_(settings_.factor_type()),
        weights_(upload(type_, read_convolve_numbers(*settings_.weights, "weights", type_))),
        bias_(upload(type_, settings_.bias == nullptr ? std::vector<float>{0.0F}
                                                      : read_convolve_numbers(*settings_.bias, "bias", type_))) {
    const auto handle = std::make_shared<const cudnn_handle>(cudnn_library::load());
    convolution_shape shape = settings_.shape;
    const auto bytes = [&](std::int64_t elements) { return static_cast<std::size_t>(elements) * size_of(type_); };
    const std::size_t common = std::gcd(bytes(shape.input_elements()), bytes(shape.output_elements()));
    const cudnn_convolution_settings wanted{
        .compute = settings_.compute,
        .alignment = max_frames == 1 ? 16 : std::int64_t{1} << std::min(4, std::countr_zero(common))};
    std::size_t workspace = 0;
    for (shape.frames = 1; shape.frames <= max_frames; shape.frames *= 2) {
      pieces_.emplace_back(handle, shape, wanted);
      workspace = std::max(workspace, pieces_.back().workspace_bytes());
    }
    input_offset_ = aligned(workspace);
    output_offset_ = input_offset_ + (changes_precision() ? aligned(bytes(max_frames * shape.input_elements())) : 0);
    scratch_bytes_ = output_offset_ + (changes_precision() ? aligned(bytes(max_frames * shape.output_elements())) : 0);
  }

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override { return scratch_bytes_; }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    const std::int64_t frames = arguments.extent.frames;
    if (frames <= 0) {
      return {};
    }
    auto* const scratch = static_cast<std::byte*>(arguments.scratch);
    const auto* x = static_cast<const std::byte*>(arguments.inputs[0]);
    auto* y = static_cast<std::byte*>(arguments.output);
    if (changes_precision()) {
      if (const fault failed = change_precision(stream, settings_.input.type, type_, x, scratch + input_offset_,
                                                frames * settings_.shape.input_elements())) {
        return failed;
      }
      x = scratch + input_offset_;
      y = scratch + output_offset_;
    }
    const fault failed = kernel_queue::of(stream).enqueue(
        [&](cudaStream_t cuda_stream) { return convolve(cuda_stream, scratch, x, y, frames); });
    if (failed || !changes_precision()) {
      return failed;
    }
    return change_precision(stream, type_, settings_.output.type, y, arguments.output,
                            frames * settings_.shape.output_elements());
  }

 private:
  [[nodiscard]] bool changes_precision() const noexcept { return settings_.input.type != type_; }

  [[nodiscard]] fault convolve(cudaStream_t stream, std::byte* workspace, const std::byte* x, std::byte* y,
                               std::int64_t frames) noexcept {
    const std::size_t x_bytes = static_cast<std::size_t>(settings_.shape.input_elements()) * size_of(type_);
    const std::size_t y_bytes = static_cast<std::size_t>(settings_.shape.output_elements()) * size_of(type_);
    for (std::int64_t done = 0; done < frames;) {
      const auto left = static_cast<std::uint64_t>(frames - done);
      const auto fits = static_cast<std::size_t>(std::bit_width(left)) - 1;
      // Larger than what is left, but not than the batch.
      const bool whole = fits >= pieces_.size() || std::has_single_bit(left) || done == 0;
      cudnn_convolution& piece = pieces_[std::min(whole ? fits : fits + 1, pieces_.size() - 1)];
      const auto first = static_cast<std::size_t>(std::min(done, frames - piece.shape().frames));
      if (const fault failed = piece.run(stream, workspace, x + first * x_bytes, weights_.data(),
                                         settings_.bias == nullptr ? nullptr : bias_.data(), y + first * y_bytes)) {
        return failed;
      }
      done += piece.shape().frames;
    }
    return {};
  }

  const convolve_settings settings_;
  const element_type type_;
  const device_array<std::byte> weights_;
  const device_array<std::byte> bias_;
  std::vector<cudnn_convolution> pieces_;  ///< of 1, 2, 4, … frames
  std::size_t input_offset_ = 0;
  std::size_t output_offset_ = 0;
  std::size_t scratch_bytes_ = 0;
};

}  // namespace

std::unique_ptr<operation> make_convolve_cuda(const operation_request& request) {
  return std::make_unique<convolve_cuda>(parse_convolve(request.settings, request.inputs[0]), request.max_frames);
}

}  // namespace penstock

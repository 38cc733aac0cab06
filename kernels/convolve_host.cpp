#include "kernels/convolve.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "kernels/function_attributes.hpp"
#include "kernels/half.hpp"
#include "kernels/onednn.hpp"

namespace penstock {
namespace {

/// Frames of the largest piece of a batch, and bytes that its tensors take at most: more frames save no more time.
constexpr std::int64_t most_frames = 64;
constexpr std::int64_t most_bytes = std::int64_t{1} << 20U;

constexpr std::size_t aligned(std::size_t bytes) noexcept {
  return (bytes + 255) / 256 * 256;
}

/// Each batch is cut into pieces of a power of two of frames, for each of which there is a convolution.
class convolve_host final : public operation {
 public:
  convolve_host(convolve_settings settings, std::int64_t max_frames) : settings_(std::move(settings)) {
    std::vector<float> weights = read_convolve_numbers(*settings_.weights, "weights", settings_.factor_type());
    const std::vector<float> bias = settings_.bias == nullptr
                                        ? std::vector<float>{}
                                        : read_convolve_numbers(*settings_.bias, "bias", settings_.factor_type());
    if (settings_.factor_type() != element_type::f32) {
      const std::vector<float> exact = weights;
      round_factors(settings_.factor_type(), element_type::f32, exact.data(), weights.data(), weights.size());
    }
    const auto library = load_onednn();
    convolution_shape shape = settings_.shape;
    const std::int64_t frame_bytes =
        static_cast<std::int64_t>(sizeof(float)) * std::max(shape.input_elements(), shape.output_elements());
    std::size_t workspace = 0;
    for (shape.frames = 1; shape.frames <= std::min(max_frames, most_frames) &&
                           (shape.frames == 1 || shape.frames * frame_bytes <= most_bytes);
         shape.frames *= 2) {
      pieces_.emplace_back(library, shape, weights.data(), settings_.bias == nullptr ? nullptr : bias.data(), 1.0,
                           pieces_.empty() ? nullptr : &pieces_.back());
      workspace = std::max(workspace, pieces_.back().workspace_bytes());
    }
    const auto floats = [&](std::int64_t elements) {
      return aligned(sizeof(float) * static_cast<std::size_t>(pieces_.back().shape().frames * elements));
    };
    input_offset_ = aligned(workspace);
    output_offset_ = input_offset_ + (changes_input() ? floats(shape.input_elements()) : 0);
    scratch_bytes_ = output_offset_ + (changes_output() ? floats(shape.output_elements()) : 0);
  }

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override { return scratch_bytes_; }

  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    const auto* in = static_cast<const std::byte*>(arguments.inputs[0]);
    auto* out = static_cast<std::byte*>(arguments.output);
    std::int64_t left = arguments.extent.frames;
    for (std::size_t index = pieces_.size(); index-- > 0;) {
      const onednn_convolution& piece = pieces_[index];
      const auto frames = static_cast<std::size_t>(piece.shape().frames);
      for (; left >= piece.shape().frames; left -= piece.shape().frames) {
        if (const fault failed = run_piece(piece, in, out, static_cast<std::byte*>(arguments.scratch))) {
          return failed;
        }
        in += frames * settings_.input.bytes();
        out += frames * settings_.output.bytes();
      }
    }
    return {};
  }

 private:
  [[nodiscard]] bool changes_input() const noexcept {
    return settings_.input.type != element_type::f32 || settings_.factor_type() != element_type::f32;
  }
  [[nodiscard]] bool changes_output() const noexcept { return settings_.output.type != element_type::f32; }

  [[nodiscard]] fault run_piece(const onednn_convolution& piece, const std::byte* in, std::byte* out,
                                std::byte* scratch) const noexcept {
    const auto frames = static_cast<std::size_t>(piece.shape().frames);
    const auto* x = reinterpret_cast<const float*>(in);
    auto* y = reinterpret_cast<float*>(out);
    if (changes_input()) {
      auto* const wide = reinterpret_cast<float*>(scratch + input_offset_);
      round_factors(settings_.factor_type(), settings_.input.type, in, wide,
                    frames * static_cast<std::size_t>(settings_.shape.input_elements()));
      x = wide;
    }
    if (changes_output()) {
      y = reinterpret_cast<float*>(scratch + output_offset_);
    }
    if (const fault failed = piece.run(scratch, x, nullptr, nullptr, y)) {
      return failed;
    }
    if (changes_output()) {
      store_rounded(settings_.output.type, y, out,
                    frames * static_cast<std::size_t>(settings_.shape.output_elements()));
    }
    return {};
  }

  const convolve_settings settings_;
  std::vector<onednn_convolution> pieces_;  ///< of 1, 2, 4, … frames
  std::size_t input_offset_ = 0;
  std::size_t output_offset_ = 0;
  std::size_t scratch_bytes_ = 0;
};

}  // namespace

std::unique_ptr<operation> make_convolve_host(const operation_request& request) {
  return std::make_unique<convolve_host>(parse_convolve(request.settings, request.inputs[0]), request.max_frames);
}

}  // namespace penstock

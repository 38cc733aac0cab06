#include "kernels/magnitude.hpp"

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/function_attributes.hpp"

namespace penstock {
namespace {

/// The squares are of parts that are divided by the larger one's power of two.
PENSTOCK_VECTOR_CLONES void magnitudes(const float* __restrict in, float* __restrict out, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::int32_t re_bits = std::bit_cast<std::int32_t>(in[2 * i]) & 0x7fffffff;
    const std::int32_t im_bits = std::bit_cast<std::int32_t>(in[2 * i + 1]) & 0x7fffffff;
    const std::int32_t larger = re_bits > im_bits ? re_bits : im_bits;
    const std::int32_t exponent = larger & 0x7f800000;
    const std::int32_t inverse = 0x7f000000 - (exponent < 0x7e800000 ? exponent : 0x7e800000);
    const float down = std::bit_cast<float>(inverse);
    const float up = std::bit_cast<float>(0x7f000000 - inverse);
    const float re = in[2 * i] * down;
    const float im = in[2 * i + 1] * down;
    out[i] = std::sqrt(re * re + im * im) * up;
  }
}

PENSTOCK_VECTOR_CLONES void squared_magnitudes(const float* __restrict in, float* __restrict out, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = in[2 * i] * in[2 * i] + in[2 * i + 1] * in[2 * i + 1];
  }
}

class magnitude_host final : public operation {
 public:
  explicit magnitude_host(magnitude_settings settings) : settings_{std::move(settings)} {}

  [[nodiscard]] bool single_pass() const noexcept override { return true; }
  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    const batch_extent& extent = arguments.extent;
    const auto count = static_cast<std::size_t>(extent.frames * settings_.input.elements(extent.leading));
    const auto* const in = static_cast<const float*>(arguments.inputs[0]);
    auto* const out = static_cast<float*>(arguments.output);
    if (settings_.squared) {
      squared_magnitudes(in, out, count);
    } else {
      magnitudes(in, out, count);
    }
    return {};
  }

 private:
  const magnitude_settings settings_;
};

}  // namespace

std::unique_ptr<operation> make_magnitude_host(const operation_request& request) {
  return std::make_unique<magnitude_host>(parse_magnitude(request.settings, request.inputs[0]));
}

}  // namespace penstock

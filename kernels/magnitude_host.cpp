#include "kernels/magnitude.hpp"

#include <cmath>
#include <cstddef>
#include <utility>

#include "kernels/vector_clones.hpp"

namespace penstock {
namespace {

PENSTOCK_VECTOR_CLONES void magnitudes(const float* __restrict in, float* __restrict out, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = std::sqrt(in[2 * i] * in[2 * i] + in[2 * i + 1] * in[2 * i + 1]);
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

#include "kernels/affine.hpp"

#include <cstddef>
#include <utility>

#include "kernels/function_attributes.hpp"

namespace penstock {
namespace {

PENSTOCK_VECTOR_CLONES void scale_real(const float* __restrict in, float* __restrict out, std::size_t count, float a,
                                       float b) {
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = a * in[i] + b;
  }
}

PENSTOCK_VECTOR_CLONES void scale_complex(const float* __restrict in, float* __restrict out, std::size_t count, float a,
                                          float b) {
  for (std::size_t i = 0; i < count; ++i) {
    out[2 * i] = a * in[2 * i] + b;
    out[2 * i + 1] = a * in[2 * i + 1];
  }
}

// The same where the output is the input.
PENSTOCK_VECTOR_CLONES void rescale_real(float* data, std::size_t count, float a, float b) {
  for (std::size_t i = 0; i < count; ++i) {
    data[i] = a * data[i] + b;
  }
}

PENSTOCK_VECTOR_CLONES void rescale_complex(float* data, std::size_t count, float a, float b) {
  for (std::size_t i = 0; i < count; ++i) {
    data[2 * i] = a * data[2 * i] + b;
    data[2 * i + 1] = a * data[2 * i + 1];
  }
}

class affine_host final : public operation {
 public:
  explicit affine_host(affine_settings settings) : settings_{std::move(settings)} {}

  [[nodiscard]] bool single_pass() const noexcept override { return true; }
  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    const batch_extent& extent = arguments.extent;
    const auto count = static_cast<std::size_t>(extent.frames * settings_.input.elements(extent.leading));
    const auto* const in = static_cast<const float*>(arguments.inputs[0]);
    auto* const out = static_cast<float*>(arguments.output);
    if (in == out) {
      (settings_.complex_input ? rescale_complex : rescale_real)(out, count, settings_.a, settings_.b);
    } else {
      (settings_.complex_input ? scale_complex : scale_real)(in, out, count, settings_.a, settings_.b);
    }
    return {};
  }

 private:
  const affine_settings settings_;
};

}  // namespace

std::unique_ptr<operation> make_affine_host(const operation_request& request) {
  return std::make_unique<affine_host>(parse_affine(request.settings, request.inputs[0]));
}

}  // namespace penstock

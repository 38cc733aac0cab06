#include "kernels/window.hpp"

#include <cstddef>
#include <utility>

#include "kernels/function_attributes.hpp"

namespace penstock {
namespace {

PENSTOCK_VECTOR_CLONES void weigh_real(const float* __restrict in, const float* __restrict weights,
                                       float* __restrict out, std::size_t length) {
  for (std::size_t i = 0; i < length; ++i) {
    out[i] = weights[i] * in[i];
  }
}

PENSTOCK_VECTOR_CLONES void weigh_complex(const float* __restrict in, const float* __restrict weights,
                                          float* __restrict out, std::size_t length) {
  for (std::size_t i = 0; i < length; ++i) {
    out[2 * i] = weights[i] * in[2 * i];
    out[2 * i + 1] = weights[i] * in[2 * i + 1];
  }
}

// The same where the output is the input.
PENSTOCK_VECTOR_CLONES void reweigh_real(float* __restrict data, const float* __restrict weights, std::size_t length) {
  for (std::size_t i = 0; i < length; ++i) {
    data[i] = weights[i] * data[i];
  }
}

PENSTOCK_VECTOR_CLONES void reweigh_complex(float* __restrict data, const float* __restrict weights,
                                            std::size_t length) {
  for (std::size_t i = 0; i < length; ++i) {
    data[2 * i] = weights[i] * data[2 * i];
    data[2 * i + 1] = weights[i] * data[2 * i + 1];
  }
}

class window_host final : public operation {
 public:
  explicit window_host(window_settings settings) : settings_{std::move(settings)} {}

  [[nodiscard]] bool single_pass() const noexcept override { return true; }
  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    const auto rows = static_cast<std::size_t>(settings_.rows.count(arguments.extent));
    const std::size_t length = settings_.coefficients.size();
    const bool complex = is_complex(settings_.input.type);
    const std::size_t stride = complex ? 2 * length : length;
    const auto* in = static_cast<const float*>(arguments.inputs[0]);
    auto* out = static_cast<float*>(arguments.output);
    const bool over = in == out;
    for (std::size_t row = 0; row < rows; ++row, in += stride, out += stride) {
      if (over) {
        (complex ? reweigh_complex : reweigh_real)(out, settings_.coefficients.data(), length);
      } else {
        (complex ? weigh_complex : weigh_real)(in, settings_.coefficients.data(), out, length);
      }
    }
    return {};
  }

 private:
  const window_settings settings_;
};

}  // namespace

std::unique_ptr<operation> make_window_host(const operation_request& request) {
  return std::make_unique<window_host>(parse_window(request.settings, request.inputs[0]));
}

}  // namespace penstock

#include <cmath>
#include <utility>
#include <vector>

#include "kernels/cublas_xt.hpp"
#include "kernels/matmul_massive.hpp"
#include "kernels/pinned_file.hpp"

namespace penstock {
namespace {

class matmul_xt final : public operation {
 public:
  explicit matmul_xt(matmul_settings settings)
      : settings_(std::move(settings)),
        product_(cublasxt_library::load()),
        weights_(*settings_.weights),
        bias_(settings_.bias != nullptr ? static_cast<std::size_t>(settings_.columns) : 0) {
    if (settings_.bias != nullptr) {
      read_numbers(*settings_.bias, "bias", element_type::f32, 0, bias_);
    }
  }

  [[nodiscard]] std::string note() const override { return std::string("weights: ") + weights_.how(); }

  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    const std::int64_t rows = settings_.rows.count(arguments.extent);
    auto* const out = static_cast<float*>(arguments.output);
    if (rows <= 0) {
      return {};
    }
    const fault failed =
        product_.run(rows, settings_.columns, settings_.inner, static_cast<const float*>(arguments.inputs[0]),
                     reinterpret_cast<const float*>(weights_.data()), out);
    if (!failed) {
      finish(rows, out);
    }
    return failed;
  }

 private:
  using activation_kind = matmul_settings::activation_kind;

  [[nodiscard]] float activate(float y) const noexcept {
    constexpr float twice_root = 1.5957691216057308F;  // 2 · √(2/π)
    switch (settings_.activation) {
      case activation_kind::relu:
        return y < 0.0F ? 0.0F : y;
      case activation_kind::gelu:
        return y / (1.0F + std::exp(-twice_root * (y + 0.044715F * y * y * y)));
      case activation_kind::none:
        break;
    }
    return y;
  }

  void finish(std::int64_t rows, float* out) const noexcept {
    if (bias_.empty() && settings_.activation == activation_kind::none) {
      return;
    }
    for (std::int64_t row = 0; row < rows; ++row, out += settings_.columns) {
      for (std::int64_t n = 0; n < settings_.columns; ++n) {
        out[n] = activate(bias_.empty() ? out[n] : out[n] + bias_[static_cast<std::size_t>(n)]);
      }
    }
  }

  const matmul_settings settings_;
  const cublasxt_product product_;
  const pinned_file weights_;
  std::vector<float> bias_;  ///< empty: none
};

}  // namespace

std::unique_ptr<operation> make_matmul_xt(const matmul_settings& settings, std::int64_t /*max_frames*/) {
  return std::make_unique<matmul_xt>(settings);
}

}  // namespace penstock

#include "kernels/fold.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "kernels/function_attributes.hpp"

namespace penstock {
namespace {

// `first` may be `out`: later inputs are folded into what the earlier ones gave.

PENSTOCK_VECTOR_CLONES void add_values(const float* first, const float* __restrict second, float* out,
                                       std::size_t count) {
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = first[i] + second[i];
  }
}

PENSTOCK_VECTOR_CLONES void multiply_values(const float* first, const float* __restrict second, float* out,
                                            std::size_t count) {
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = first[i] * second[i];
  }
}

/// `sign` is −1 to conjugate the second factor, else 1.
PENSTOCK_VECTOR_CLONES void multiply_complex(const float* first, const float* __restrict second, float* out,
                                             std::size_t count, float sign) {
#pragma omp simd
  for (std::size_t i = 0; i < count; ++i) {
    const float re = first[2 * i];
    const float im = first[2 * i + 1];
    const float by_re = second[2 * i];
    const float by_im = sign * second[2 * i + 1];
    out[2 * i] = re * by_re - im * by_im;
    out[2 * i + 1] = re * by_im + im * by_re;
  }
}

/// Floats that stay in the first-level cache while one input after the other is folded into them.
constexpr std::size_t block_values = 2048;

class fold_host final : public operation {
 public:
  explicit fold_host(fold_settings settings) : settings_{std::move(settings)} {}

  [[nodiscard]] bool single_pass() const noexcept override { return true; }
  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    const auto count = static_cast<std::size_t>(settings_.count(arguments.extent)) * (settings_.complex_input ? 2 : 1);
    auto* const out = static_cast<float*>(arguments.output);
    for (std::size_t first = 0; first < count; first += block_values) {
      const std::size_t length = std::min(block_values, count - first);
      const auto* folded = static_cast<const float*>(arguments.inputs[0]) + first;
      for (const void* const input : arguments.inputs.subspan(1)) {
        combine(folded, static_cast<const float*>(input) + first, out + first, length);
        folded = out + first;
      }
    }
    return {};
  }

 private:
  void combine(const float* first, const float* second, float* out, std::size_t count) const noexcept {
    if (settings_.combine == fold_settings::combination::sum) {
      add_values(first, second, out, count);
    } else if (!settings_.complex_input) {
      multiply_values(first, second, out, count);
    } else {
      const bool conjugate = settings_.combine == fold_settings::combination::conjugate_product;
      multiply_complex(first, second, out, count / 2, conjugate ? -1.0F : 1.0F);
    }
  }

  const fold_settings settings_;
};

}  // namespace

std::unique_ptr<operation> make_add_host(const operation_request& request) {
  return std::make_unique<fold_host>(parse_add(request.settings, request.inputs));
}

std::unique_ptr<operation> make_multiply_host(const operation_request& request) {
  return std::make_unique<fold_host>(parse_multiply(request.settings, request.inputs));
}

}  // namespace penstock

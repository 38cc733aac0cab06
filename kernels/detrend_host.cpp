#include "kernels/detrend.hpp"

#include <cmath>
#include <cstdint>
#include <utility>

#include "kernels/function_attributes.hpp"

namespace penstock {
namespace {

/// What is taken off a row of one part: level + slope · n.
struct trend {
  double level = 0.0;
  double slope = 0.0;
};

/// Sums of d = x - shift and of its products with the places n.
struct trend_sums {
  double sum = 0.0;
  double product = 0.0;
};

constexpr std::int64_t block_length = 4096;

/// Of a block's samples, `Stride` apart, with n from 0 on.
template <int Stride>
[[gnu::always_inline]] inline trend_sums sum_block(const float* x, std::int64_t count, double shift) noexcept {
  double sum = 0.0;
  double product = 0.0;
#pragma omp simd reduction(+ : sum, product)
  for (std::int32_t n = 0; n < static_cast<std::int32_t>(count); ++n) {
    const double d = static_cast<double>(x[n * Stride]) - shift;
    sum += d;
    product += d * static_cast<double>(n);
  }
  return {sum, product};
}

template <int Stride>
[[gnu::always_inline]] inline void take_off(const float* x, std::int64_t count, const trend& line, float* y) noexcept {
  const double level = line.level;
  const double slope = line.slope;
#pragma omp simd
  for (std::int32_t n = 0; n < static_cast<std::int32_t>(count); ++n) {
    y[n * Stride] = static_cast<float>(static_cast<double>(x[n * Stride]) - level - slope * static_cast<double>(n));
  }
}

template <int Stride>
[[gnu::always_inline]] inline void detrend_row(const float* x, std::int64_t length, bool linear, float* y) noexcept {
  const double shift = std::isfinite(x[0]) ? static_cast<double>(x[0]) : 0.0;
  double sum = 0.0;
  double product = 0.0;
  for (std::int64_t first = 0; first < length; first += block_length) {
    const trend_sums block = sum_block<Stride>(x + first * Stride, std::min(block_length, length - first), shift);
    sum += block.sum;
    product += block.product + block.sum * static_cast<double>(first);
  }
  const double n = static_cast<double>(length);
  const double centre = (n - 1.0) / 2.0;
  const double slope = linear && length > 1 ? (product - sum * centre) / spread_of_places(length) : 0.0;
  const double level = shift + sum / n - slope * centre;
  for (std::int64_t first = 0; first < length; first += block_length) {
    take_off<Stride>(x + first * Stride, std::min(block_length, length - first),
                     {level + slope * static_cast<double>(first), slope}, y + first * Stride);
  }
}

PENSTOCK_VECTOR_CLONES void detrend_real(const float* x, std::int64_t length, bool linear, float* y) {
  detrend_row<1>(x, length, linear, y);
}

PENSTOCK_VECTOR_CLONES void detrend_part(const float* x, std::int64_t length, bool linear, float* y) {
  detrend_row<2>(x, length, linear, y);
}

class detrend_host final : public operation {
 public:
  explicit detrend_host(detrend_settings settings) : settings_{std::move(settings)} {}

  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    const std::int64_t rows = settings_.rows.count(arguments.extent);
    const std::int64_t length = settings_.rows.length(arguments.extent);
    const auto* in = static_cast<const float*>(arguments.inputs[0]);
    auto* out = static_cast<float*>(arguments.output);
    for (std::int64_t row = 0; length > 0 && row < rows; ++row) {
      if (settings_.parts == 1) {
        detrend_real(in, length, settings_.linear, out);
      } else {
        detrend_part(in, length, settings_.linear, out);
        detrend_part(in + 1, length, settings_.linear, out + 1);
      }
      in += length * settings_.parts;
      out += length * settings_.parts;
    }
    return {};
  }

 private:
  const detrend_settings settings_;
};

}  // namespace

std::unique_ptr<operation> make_detrend_host(const operation_request& request) {
  return std::make_unique<detrend_host>(parse_detrend(request.settings, request.inputs[0]));
}

}  // namespace penstock

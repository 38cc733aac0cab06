#include "kernels/reduce.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>

#include "kernels/function_attributes.hpp"

namespace penstock {
namespace {

using function = reduce_settings::function;

/// Of a complex element, both parts.
constexpr std::size_t columns_at_once = 1024;

[[gnu::always_inline]] inline double square(float value) noexcept {
  return static_cast<double>(value) * static_cast<double>(value);
}

PENSTOCK_VECTOR_CLONES double sum_of(const float* values, std::size_t count) {
  double sum = 0.0;
#pragma omp simd reduction(+ : sum)
  for (std::size_t i = 0; i < count; ++i) {
    sum += static_cast<double>(values[i]);
  }
  return sum;
}

PENSTOCK_VECTOR_CLONES double squares_of(const float* values, std::size_t count) {
  double sum = 0.0;
#pragma omp simd reduction(+ : sum)
  for (std::size_t i = 0; i < count; ++i) {
    sum += square(values[i]);
  }
  return sum;
}

PENSTOCK_VECTOR_CLONES void sum_pairs(const float* values, std::size_t pairs, double* sums) {
  double re = 0.0;
  double im = 0.0;
#pragma omp simd reduction(+ : re, im)
  for (std::size_t i = 0; i < pairs; ++i) {
    re += static_cast<double>(values[2 * i]);
    im += static_cast<double>(values[2 * i + 1]);
  }
  sums[0] = re;
  sums[1] = im;
}

/// `length` rows of `count` columns, `pitch` values apart. Four at a time load and store the sums a quarter as often.
PENSTOCK_VECTOR_CLONES void sum_columns(const float* values, std::size_t pitch, std::size_t length, std::size_t count,
                                        double* __restrict sums) {
  std::fill_n(sums, count, 0.0);
  std::size_t row = 0;
  for (; row + 4 <= length; row += 4, values += 4 * pitch) {
#pragma omp simd
    for (std::size_t i = 0; i < count; ++i) {
      const double first = static_cast<double>(values[i]) + static_cast<double>(values[pitch + i]);
      const double second = static_cast<double>(values[2 * pitch + i]) + static_cast<double>(values[3 * pitch + i]);
      sums[i] += first + second;
    }
  }
  for (; row < length; ++row, values += pitch) {
#pragma omp simd
    for (std::size_t i = 0; i < count; ++i) {
      sums[i] += static_cast<double>(values[i]);
    }
  }
}

PENSTOCK_VECTOR_CLONES void square_columns(const float* values, std::size_t pitch, std::size_t length,
                                           std::size_t count, double* __restrict sums) {
  std::fill_n(sums, count, 0.0);
  std::size_t row = 0;
  for (; row + 4 <= length; row += 4, values += 4 * pitch) {
#pragma omp simd
    for (std::size_t i = 0; i < count; ++i) {
      const double first = square(values[i]) + square(values[pitch + i]);
      sums[i] += first + (square(values[2 * pitch + i]) + square(values[3 * pitch + i]));
    }
  }
  for (; row < length; ++row, values += pitch) {
#pragma omp simd
    for (std::size_t i = 0; i < count; ++i) {
      sums[i] += square(values[i]);
    }
  }
}

/// A NaN comes in by the second comparison, and stays.
[[gnu::always_inline]] inline float larger(float so_far, float value) noexcept {
  const float larger_one = value > so_far ? value : so_far;
  return value != value ? value : larger_one;
}

/// `sign` −1 gives the least, negated. A NaN gives NaN.
PENSTOCK_VECTOR_CLONES void largest_of_columns(const float* values, std::size_t pitch, std::size_t length,
                                               std::size_t count, float sign, float* __restrict out) {
  std::fill_n(out, count, -std::numeric_limits<float>::infinity());
  std::size_t row = 0;
  for (; row + 4 <= length; row += 4, values += 4 * pitch) {
#pragma omp simd
    for (std::size_t i = 0; i < count; ++i) {
      const float first = larger(sign * values[i], sign * values[pitch + i]);
      const float second = larger(sign * values[2 * pitch + i], sign * values[3 * pitch + i]);
      out[i] = larger(out[i], larger(first, second));
    }
  }
  for (; row < length; ++row, values += pitch) {
#pragma omp simd
    for (std::size_t i = 0; i < count; ++i) {
      out[i] = larger(out[i], sign * values[i]);
    }
  }
}

/// Of one row, by several vectors, so that one need not wait for the one before.
PENSTOCK_VECTOR_CLONES float largest_of(const float* values, std::size_t count, float sign) {
  constexpr std::size_t lanes = 64;
  float largest[lanes];
  std::fill_n(largest, lanes, -std::numeric_limits<float>::infinity());
  std::size_t first = 0;
  for (; first + lanes <= count; first += lanes) {
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      largest[lane] = larger(largest[lane], sign * values[first + lane]);
    }
  }
  for (; first < count; ++first) {
    largest[0] = larger(largest[0], sign * values[first]);
  }
  return std::accumulate(largest, largest + lanes, largest[0], larger);
}

class reduce_host final : public operation {
 public:
  explicit reduce_host(reduce_settings settings) : settings_{std::move(settings)} {}

  [[nodiscard]] bool single_pass() const noexcept override { return settings_.rows.inner() == 1; }

  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    const auto outer = static_cast<std::size_t>(settings_.rows.outer(arguments.extent));
    const auto length = static_cast<std::size_t>(settings_.rows.length(arguments.extent));
    const auto inner = static_cast<std::size_t>(settings_.rows.inner());
    const std::size_t parts = settings_.complex_input ? 2 : 1;
    const std::size_t results = inner * static_cast<std::size_t>(settings_.result_parts());
    const auto* in = static_cast<const float*>(arguments.inputs[0]);
    auto* out = static_cast<float*>(arguments.output);
    for (std::size_t row = 0; row < outer; ++row, in += length * inner * parts, out += results) {
      if (inner == 1) {
        reduce_row(in, length, out);
      } else {
        reduce_columns(in, length, inner * parts, out);
      }
    }
    return {};
  }

 private:
  void reduce_row(const float* row, std::size_t length, float* out) const noexcept {
    const std::size_t parts = settings_.complex_input ? 2 : 1;
    std::array<double, 2> sums{};
    if (is_extreme()) {
      out[0] = sign() * largest_of(row, length, sign());
    } else if (settings_.squares()) {
      out[0] = finished(squares_of(row, length * parts), length);
    } else if (settings_.complex_input) {
      sum_pairs(row, length, sums.data());
      out[0] = finished(sums[0], length);
      out[1] = finished(sums[1], length);
    } else {
      out[0] = finished(sum_of(row, length), length);
    }
  }

  /// `values` are those of the row of columns, two for a complex element.
  void reduce_columns(const float* in, std::size_t length, std::size_t values, float* out) const noexcept {
    std::array<double, columns_at_once> sums;
    const bool joins_parts = settings_.complex_input && settings_.squares();
    for (std::size_t first = 0; first < values; first += columns_at_once) {
      const std::size_t count = std::min(columns_at_once, values - first);
      if (is_extreme()) {
        largest_of_columns(in + first, values, length, count, sign(), out + first);
        for (std::size_t i = first; i < first + count; ++i) {
          out[i] *= sign();
        }
        continue;
      }
      if (settings_.squares()) {
        square_columns(in + first, values, length, count, sums.data());
      } else {
        sum_columns(in + first, values, length, count, sums.data());
      }
      if (joins_parts) {
        for (std::size_t i = 0; i < count; i += 2) {
          out[(first + i) / 2] = finished(sums[i] + sums[i + 1], length);
        }
      } else {
        for (std::size_t i = 0; i < count; ++i) {
          out[first + i] = finished(sums[i], length);
        }
      }
    }
  }

  [[nodiscard]] bool is_extreme() const noexcept {
    return settings_.computes == function::max || settings_.computes == function::min;
  }
  [[nodiscard]] float sign() const noexcept { return settings_.computes == function::min ? -1.0F : 1.0F; }

  [[nodiscard]] float finished(double sum, std::size_t length) const noexcept {
    const double mean = sum / static_cast<double>(length);
    return static_cast<float>(settings_.computes == function::sum   ? sum
                              : settings_.computes == function::rms ? std::sqrt(mean)
                                                                    : mean);
  }

  const reduce_settings settings_;
};

}  // namespace

std::unique_ptr<operation> make_reduce_host(const operation_request& request) {
  return std::make_unique<reduce_host>(parse_reduce(request.settings, request.inputs[0]));
}

}  // namespace penstock

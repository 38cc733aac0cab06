#include "kernels/moments.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "kernels/element_values.hpp"
#include "kernels/function_attributes.hpp"

namespace penstock {
namespace {

/// Moments of one view of a row. Sums are of v - shift.
struct running_moments {
  double shift = 0.0;
  double sum = 0.0;
  double squares = 0.0;
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  bool has_nan = false;
};

/// The loop of the pass; the pragma allows the sums to be taken in several lanes.
template <class Value>
[[gnu::always_inline]] inline void gather(const Value* values, std::size_t count, running_moments& moments) noexcept {
  const double shift = moments.shift;
  double sum = 0.0;
  double squares = 0.0;
  Value low = std::numeric_limits<Value>::infinity();
  Value high = -std::numeric_limits<Value>::infinity();
  unsigned nan = 0;
#pragma omp simd reduction(+ : sum, squares) reduction(min : low) reduction(max : high) reduction(| : nan)
  for (std::size_t i = 0; i < count; ++i) {
    const Value v = values[i];
    const double d = static_cast<double>(v) - shift;
    sum += d;
    squares += d * d;
    low = v < low ? v : low;
    high = v > high ? v : high;
    nan |= std::isnan(v) ? 1U : 0U;
  }
  moments.sum += sum;
  moments.squares += squares;
  moments.low = std::min(moments.low, static_cast<double>(low));
  moments.high = std::max(moments.high, static_cast<double>(high));
  moments.has_nan = moments.has_nan || nan != 0;
}

PENSTOCK_VECTOR_CLONES void gather_f32(const float* values, std::size_t count, running_moments& moments) {
  gather(values, count, moments);
}

PENSTOCK_VECTOR_CLONES void gather_f64(const double* values, std::size_t count, running_moments& moments) {
  gather(values, count, moments);
}

/// Sums of the powers of t = (v - mean) · scale.
struct central_sums {
  double mean = 0.0;
  double scale = 1.0;
  double squares = 0.0;
  double cubes = 0.0;
  double fourths = 0.0;
};

template <class Value>
[[gnu::always_inline]] inline void gather_powers(const Value* values, std::size_t count, central_sums& sums) noexcept {
  const double mean = sums.mean;
  const double scale = sums.scale;
  double squares = 0.0;
  double cubes = 0.0;
  double fourths = 0.0;
#pragma omp simd reduction(+ : squares, cubes, fourths)
  for (std::size_t i = 0; i < count; ++i) {
    const double t = (static_cast<double>(values[i]) - mean) * scale;
    const double square = t * t;
    squares += square;
    cubes += square * t;
    fourths += square * square;
  }
  sums.squares += squares;
  sums.cubes += cubes;
  sums.fourths += fourths;
}

PENSTOCK_VECTOR_CLONES void powers_f32(const float* values, std::size_t count, central_sums& sums) {
  gather_powers(values, count, sums);
}

PENSTOCK_VECTOR_CLONES void powers_f64(const double* values, std::size_t count, central_sums& sums) {
  gather_powers(values, count, sums);
}

constexpr std::size_t block_length = 512;

/// A block of complex values, apart. |z| is in float64: its spread may be a millionth of it.
struct complex_views {
  std::array<float, block_length> in_phase;
  std::array<float, block_length> quadrature;
  std::array<double, block_length> magnitude;
};

PENSTOCK_VECTOR_CLONES void separate(const float* __restrict in, std::size_t count, complex_views& __restrict out) {
  for (std::size_t i = 0; i < count; ++i) {
    out.in_phase[i] = in[2 * i];
    out.quadrature[i] = in[2 * i + 1];
  }
  for (std::size_t i = 0; i < count; ++i) {
    const auto re = static_cast<double>(out.in_phase[i]);
    const auto im = static_cast<double>(out.quadrature[i]);
    out.magnitude[i] = std::sqrt(re * re + im * im);
  }
}

/// Any finite value of the row.
double shift_from(double first) noexcept {
  return std::isfinite(first) ? first : 0.0;
}

/// Writes mean to rms, and gives the start of the second pass.
central_sums write_results(const running_moments& gathered, std::size_t count, float* out) noexcept {
  const auto n = static_cast<double>(count);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double offset = gathered.sum / n;
  const double mean = gathered.shift + offset;
  const double centred = gathered.squares / n - offset * offset;
  const double variance = centred < 0.0 ? 0.0 : centred;
  out[0] = static_cast<float>(mean);
  out[1] = static_cast<float>(std::sqrt(variance));
  out[2] = static_cast<float>(gathered.has_nan ? nan : gathered.low);
  out[3] = static_cast<float>(gathered.has_nan ? nan : gathered.high);
  out[4] = static_cast<float>(std::sqrt(variance + mean * mean));
  const double scale = 1.0 / std::sqrt(variance);
  return {.mean = mean, .scale = std::isfinite(scale) ? scale : 1.0};
}

/// Writes skewness and excess kurtosis.
void write_powers(const central_sums& sums, std::size_t count, float* out) noexcept {
  const auto n = static_cast<double>(count);
  const double variance = sums.squares / n;
  const double scaled_mean = sums.mean * sums.scale;
  const bool flat = variance <= least_variance * scaled_mean * scaled_mean;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  out[5] = static_cast<float>(flat ? nan : sums.cubes / n / (variance * std::sqrt(variance)));
  out[6] = static_cast<float>(flat ? nan : sums.fourths / n / (variance * variance) - 3.0);
}

void real_row(const float* in, std::size_t count, bool powers, float* out) noexcept {
  running_moments gathered{.shift = shift_from(static_cast<double>(in[0]))};
  gather_f32(in, count, gathered);
  central_sums sums = write_results(gathered, count, out);
  if (powers) {
    powers_f32(in, count, sums);
    write_powers(sums, count, out);
  }
}

/// Of f16, bf16 and f64.
void converted_row(const std::byte* in, std::size_t count, element_type type, bool powers, float* out) noexcept {
  const read_values read = reader_of(type);
  std::array<double, block_length> numbers;
  const auto visit = [&](const auto& each) {
    for (std::size_t first = 0; first < count; first += block_length) {
      const std::size_t length = std::min(block_length, count - first);
      read(in + first * size_of(type), 1, length, numbers.data());
      each(numbers.data(), length);
    }
  };
  read(in, 1, 1, numbers.data());
  running_moments gathered{.shift = shift_from(numbers[0])};
  visit([&](const double* values, std::size_t length) { gather_f64(values, length, gathered); });
  central_sums sums = write_results(gathered, count, out);
  if (powers) {
    visit([&](const double* values, std::size_t length) { powers_f64(values, length, sums); });
    write_powers(sums, count, out);
  }
}

void complex_row(const float* in, std::size_t count, std::size_t results, float* out) noexcept {
  complex_views views;
  const auto visit = [&](const auto& each) {
    for (std::size_t first = 0; first < count; first += block_length) {
      const std::size_t length = std::min(block_length, count - first);
      separate(in + 2 * first, length, views);
      each(length);
    }
  };
  separate(in, 1, views);
  running_moments in_phase{.shift = shift_from(static_cast<double>(views.in_phase[0]))};
  running_moments quadrature{.shift = shift_from(static_cast<double>(views.quadrature[0]))};
  running_moments magnitude{.shift = shift_from(views.magnitude[0])};
  visit([&](std::size_t length) {
    gather_f32(views.in_phase.data(), length, in_phase);
    gather_f32(views.quadrature.data(), length, quadrature);
    gather_f64(views.magnitude.data(), length, magnitude);
  });
  central_sums sums_i = write_results(in_phase, count, out);
  central_sums sums_q = write_results(quadrature, count, out + results);
  central_sums sums_z = write_results(magnitude, count, out + 2 * results);
  if (results > 5) {
    visit([&](std::size_t length) {
      powers_f32(views.in_phase.data(), length, sums_i);
      powers_f32(views.quadrature.data(), length, sums_q);
      powers_f64(views.magnitude.data(), length, sums_z);
    });
    write_powers(sums_i, count, out);
    write_powers(sums_q, count, out + results);
    write_powers(sums_z, count, out + 2 * results);
  }
}

class moments_host final : public operation {
 public:
  explicit moments_host(moments_settings settings) : settings_{std::move(settings)} {}

  [[nodiscard]] bool single_pass() const noexcept override { return settings_.results == 5; }
  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    const auto rows = static_cast<std::size_t>(settings_.rows.count(arguments.extent));
    const auto length = static_cast<std::size_t>(settings_.rows.length(arguments.extent));
    const element_type type = settings_.input.type;
    const std::size_t in_step = length * size_of(type);
    const auto results = static_cast<std::size_t>(settings_.results);
    const bool powers = results > 5;
    const std::size_t out_step = static_cast<std::size_t>(settings_.views) * results;
    const auto* in = static_cast<const std::byte*>(arguments.inputs[0]);
    auto* out = static_cast<float*>(arguments.output);
    for (std::size_t row = 0; row < rows; ++row, in += in_step, out += out_step) {
      const auto* const floats = static_cast<const float*>(static_cast<const void*>(in));
      if (settings_.complex_input) {
        complex_row(floats, length, results, out);
      } else if (type == element_type::f32) {
        real_row(floats, length, powers, out);
      } else {
        converted_row(in, length, type, powers, out);
      }
    }
    return {};
  }

 private:
  const moments_settings settings_;
};

}  // namespace

std::unique_ptr<operation> make_moments_host(const operation_request& request) {
  return std::make_unique<moments_host>(parse_moments(request.settings, request.inputs[0]));
}

}  // namespace penstock

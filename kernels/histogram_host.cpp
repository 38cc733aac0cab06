#include "kernels/histogram.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/element_values.hpp"
#include "kernels/function_attributes.hpp"

namespace penstock {
namespace {

/// The bin that NaN falls into; it is left out of the result.
constexpr std::size_t nan_bin = histogram_bins;
constexpr std::size_t lanes = 4;

/// The values of a row are counted in four tables in turn, so that equal neighbours do not wait for each other. In a
/// complex row the even tables count I, the odd ones Q.
using lane_counts = std::array<std::array<std::uint32_t, nan_bin + 8>, lanes>;

[[gnu::always_inline]] inline std::size_t bin_of(std::uint8_t value) noexcept {
  return value;
}
[[gnu::always_inline]] inline std::size_t bin_of(std::int8_t value) noexcept {
  return static_cast<std::uint8_t>(value) ^ 0x80U;
}
[[gnu::always_inline]] inline std::size_t bin_of(std::int16_t value) noexcept {
  return static_cast<std::size_t>(static_cast<std::uint16_t>(value) >> 8U) ^ 0x80U;
}
[[gnu::always_inline]] inline std::size_t bin_of(std::int32_t value) noexcept {
  return (static_cast<std::uint32_t>(value) >> 24U) ^ 0x80U;
}
[[gnu::always_inline]] inline std::size_t bin_of(std::uint16_t bin) noexcept {
  return bin;
}
/// A u16 of the input, not a bin.
struct short_sample {
  std::uint16_t value;
};
[[gnu::always_inline]] inline std::size_t bin_of(short_sample sample) noexcept {
  return std::size_t{sample.value} >> 8U;
}

template <class Value>
void count_values(const Value* values, std::size_t count, lane_counts& counts) noexcept {
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    ++counts[0][bin_of(values[i])];
    ++counts[1][bin_of(values[i + 1])];
    ++counts[2][bin_of(values[i + 2])];
    ++counts[3][bin_of(values[i + 3])];
  }
  for (std::size_t lane = 0; i < count; ++i, ++lane) {
    ++counts[lane][bin_of(values[i])];
  }
}

/// clip(floor(scaled), 0, 255): what is clipped at zero first needs no floor, as the conversion cuts off.
[[gnu::always_inline]] inline std::uint16_t bin_of_scaled(double scaled) noexcept {
  const double low = scaled < 0.0 ? 0.0 : scaled;
  const double clipped = low > 255.0 ? 255.0 : low;
  const double counted = std::isnan(clipped) ? static_cast<double>(nan_bin) : clipped;
  return static_cast<std::uint16_t>(static_cast<std::int32_t>(counted));
}

PENSTOCK_VECTOR_CLONES void bins_by_scale(const float* __restrict in, std::uint16_t* __restrict out, std::size_t count,
                                          double low, double scale) {
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = bin_of_scaled((static_cast<double>(in[i]) - low) * scale);
  }
}

PENSTOCK_VECTOR_CLONES void bins_by_width(const float* __restrict in, std::uint16_t* __restrict out, std::size_t count,
                                          double low, double width) {
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = bin_of_scaled((static_cast<double>(in[i]) - low) * 256.0 / width);
  }
}

void count_floats(const float* in, std::size_t count, const histogram_settings& settings,
                  lane_counts& counts) noexcept {
  constexpr std::size_t block = 1024;
  std::array<std::uint16_t, block> bins;
  for (std::size_t first = 0; first < count; first += block) {
    const std::size_t length = std::min(block, count - first);
    if (settings.exact_scale != 0.0) {
      bins_by_scale(in + first, bins.data(), length, settings.low, settings.exact_scale);
    } else {
      bins_by_width(in + first, bins.data(), length, settings.low, settings.width);
    }
    count_values(bins.data(), length, counts);
  }
}

void bins_of_reals(const double* in, std::uint16_t* out, std::size_t count, const histogram_settings& settings) {
  for (std::size_t i = 0; i < count; ++i) {
    const double shifted = in[i] - settings.low;
    out[i] =
        bin_of_scaled(settings.exact_scale != 0.0 ? shifted * settings.exact_scale : shifted * 256.0 / settings.width);
  }
}

/// Of f16, bf16 and f64.
void count_reals(const std::byte* in, std::size_t count, const histogram_settings& settings,
                 lane_counts& counts) noexcept {
  constexpr std::size_t block = 512;
  std::array<double, block> numbers;
  std::array<std::uint16_t, block> bins;
  const read_values read = reader_of(settings.type);
  for (std::size_t first = 0; first < count; first += block) {
    const std::size_t length = std::min(block, count - first);
    read(in + first * size_of(settings.type), 1, length, numbers.data());
    bins_of_reals(numbers.data(), bins.data(), length, settings);
    count_values(bins.data(), length, counts);
  }
}

void count_row(const std::byte* row, std::size_t count, const histogram_settings& settings,
               lane_counts& counts) noexcept {
  const void* const values = row;
  switch (settings.type) {
    case element_type::u8:
    case element_type::cu8:
      return count_values(static_cast<const std::uint8_t*>(values), count, counts);
    case element_type::i8:
    case element_type::ci8:
      return count_values(static_cast<const std::int8_t*>(values), count, counts);
    case element_type::i16:
    case element_type::ci16:
      return count_values(static_cast<const std::int16_t*>(values), count, counts);
    case element_type::i32:
      return count_values(static_cast<const std::int32_t*>(values), count, counts);
    case element_type::f32:
    case element_type::cf32:
      return count_floats(static_cast<const float*>(values), count, settings, counts);
    case element_type::u16:
      return count_values(static_cast<const short_sample*>(values), count, counts);
    case element_type::f16:
    case element_type::bf16:
    case element_type::f64:
      return count_reals(row, count, settings, counts);
    case element_type::i64:
    case element_type::boolean:
      return;
  }
}

void write_counts(const lane_counts& counts, std::size_t parts, std::int32_t* out) noexcept {
  constexpr std::size_t bins = histogram_bins;
  for (std::size_t part = 0; part < parts; ++part, out += bins) {
    for (std::size_t bin = 0; bin < bins; ++bin) {
      std::uint32_t sum = 0;
      for (std::size_t lane = part; lane < lanes; lane += parts) {
        sum += counts[lane][bin];
      }
      out[bin] = static_cast<std::int32_t>(sum);
    }
  }
}

class histogram_host final : public operation {
 public:
  explicit histogram_host(histogram_settings settings) : settings_{std::move(settings)} {}

  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    const auto rows = static_cast<std::size_t>(settings_.rows.count(arguments.extent));
    const auto length = static_cast<std::size_t>(settings_.rows.length(arguments.extent));
    const auto parts = static_cast<std::size_t>(settings_.parts);
    const std::size_t row_bytes = length * size_of(settings_.type);
    const auto* in = static_cast<const std::byte*>(arguments.inputs[0]);
    auto* out = static_cast<std::int32_t*>(arguments.output);
    for (std::size_t row = 0; row < rows; ++row) {
      lane_counts counts{};
      count_row(in + row * row_bytes, length * parts, settings_, counts);
      write_counts(counts, parts, out + row * parts * static_cast<std::size_t>(histogram_bins));
    }
    return {};
  }

 private:
  const histogram_settings settings_;
};

}  // namespace

std::unique_ptr<operation> make_histogram_host(const operation_request& request) {
  return std::make_unique<histogram_host>(parse_histogram(request.settings, request.inputs[0]));
}

}  // namespace penstock

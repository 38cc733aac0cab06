#include "kernels/top.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "kernels/function_attributes.hpp"

namespace penstock {
namespace {

constexpr std::size_t block_length = 256;

/// Whether any element times `sign` is above the floor.
PENSTOCK_VECTOR_CLONES bool any_above(const float* values, std::size_t count, float sign, float floor) {
  unsigned any = 0;
#pragma omp simd reduction(| : any)
  for (std::size_t i = 0; i < count; ++i) {
    any |= sign * values[i] > floor ? 1U : 0U;
  }
  return any != 0;
}

/// The largest element times `sign`; minus infinity where there is none but NaN.
PENSTOCK_VECTOR_CLONES float largest_of(const float* values, std::size_t count, float sign) {
  constexpr std::size_t lanes = 64;  // several vectors, so that one need not wait for the one before
  float largest[lanes];
  std::fill_n(largest, lanes, -std::numeric_limits<float>::infinity());
  const auto take = [&](std::size_t lane, float value) {
    largest[lane] = value > largest[lane] ? value : largest[lane];
  };
  std::size_t first = 0;
  for (; first + lanes <= count; first += lanes) {
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      take(lane, sign * values[first + lane]);
    }
  }
  for (std::size_t lane = 0; first + lane < count; ++lane) {
    take(lane, sign * values[first + lane]);
  }
  for (std::size_t half = lanes / 2; half > 0; half /= 2) {
    for (std::size_t lane = 0; lane < half; ++lane) {
      take(lane, largest[lane + half]);
    }
  }
  return largest[0];
}

/// The index of the first value that, times `sign`, is `wanted`; `count` if there is none.
PENSTOCK_VECTOR_CLONES std::size_t place_of(const float* values, std::size_t count, float sign, float wanted) {
  constexpr std::size_t lanes = 64;
  std::size_t first = 0;
  for (; first + lanes <= count; first += lanes) {
    unsigned any = 0;
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      any |= sign * values[first + lane] == wanted ? 1U : 0U;
    }
    if (any != 0) {
      break;
    }
  }
  while (first < count && sign * values[first] != wanted) {
    ++first;
  }
  return first;
}

class top_host final : public operation {
 public:
  explicit top_host(top_settings settings) : settings_{std::move(settings)} {}

  [[nodiscard]] bool single_pass() const noexcept override { return true; }

  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    const auto rows = static_cast<std::size_t>(settings_.rows.count(arguments.extent));
    const auto length = static_cast<std::size_t>(settings_.rows.length(arguments.extent));
    const auto* in = static_cast<const float*>(arguments.inputs[0]);
    auto* out = static_cast<float*>(arguments.output);
    for (std::size_t row = 0; row < rows; ++row, in += length, out += settings_.row_results()) {
      const std::size_t found = settings_.count == 1 ? find_largest(in, length, out) : list_largest(in, length, out);
      for (std::size_t rest = found; rest < static_cast<std::size_t>(settings_.count); ++rest) {
        out[2 * rest] = -1.0F;
        out[2 * rest + 1] = 0.0F;
      }
    }
    return {};
  }

 private:
  [[nodiscard]] float sign() const noexcept { return settings_.smallest ? -1.0F : 1.0F; }

  std::size_t find_largest(const float* row, std::size_t length, float* out) const noexcept {
    float largest = -std::numeric_limits<float>::infinity();
    constexpr std::size_t most = 4096;
    std::size_t block = 0;  // the first that holds it
    for (std::size_t first = 0; first < length; first += most) {
      const float of_block = largest_of(row + first, std::min(most, length - first), sign());
      block = of_block > largest ? first : block;
      largest = std::max(largest, of_block);
    }
    const std::size_t at = block + place_of(row + block, length - block, sign(), largest);
    if (at == length) {
      return 0;
    }
    out[0] = static_cast<float>(at);
    out[1] = row[at];
    return 1;
  }

  /// Keeps the list in order: later equal ones go behind earlier ones.
  std::size_t list_largest(const float* row, std::size_t length, float* out) const noexcept {
    const auto most = static_cast<std::size_t>(settings_.count);
    std::size_t found = 0;
    for (std::size_t first = 0; first < length; first += block_length) {
      const std::size_t count = std::min(block_length, length - first);
      if (found == most && !any_above(row + first, count, sign(), sign() * out[2 * most - 1])) {
        continue;
      }
      for (std::size_t at = first; at < first + count; ++at) {
        const float value = sign() * row[at];
        if (found < most ? value == value : value > sign() * out[2 * most - 1]) {
          found += found < most ? 1 : 0;
          std::size_t place = found - 1;
          for (; place > 0 && value > sign() * out[2 * place - 1]; --place) {
            out[2 * place] = out[2 * place - 2];
            out[2 * place + 1] = out[2 * place - 1];
          }
          out[2 * place] = static_cast<float>(at);
          out[2 * place + 1] = row[at];
        }
      }
    }
    return found;
  }

  const top_settings settings_;
};

}  // namespace

std::unique_ptr<operation> make_top_host(const operation_request& request) {
  return std::make_unique<top_host>(parse_top(request.settings, request.inputs[0]));
}

}  // namespace penstock

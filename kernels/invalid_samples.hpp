#pragma once

#include <cstdint>

#include "kernels/function_attributes.hpp"
#include "kernels/operator_checks.hpp"
#include "kernels/parameters.hpp"

namespace penstock {

/// What an invalid sample, a NaN or an infinity, does to an operator with state: it reaches what is computed with it,
/// the operator begins anew behind it, or goes on without it.
enum class invalid_samples { spread, reset, hold };

/// The parameter `on_nan`: "spread" (default), "reset" or "hold". Throws parameter_error.
[[nodiscard]] inline invalid_samples parse_on_nan(const parameters& settings) {
  return static_cast<invalid_samples>(parse_choice(settings, "on_nan", {"spread", "reset", "hold"}));
}

[[nodiscard]] PENSTOCK_HOST_DEVICE constexpr bool is_valid(float sample) noexcept {
  return sample - sample == 0.0F;
}

/// Host only: whether any sample of `lanes` lanes side by side is invalid, in steps that lie `stride` apart.
[[nodiscard]] bool any_invalid(const float* samples, std::int64_t steps, std::int64_t stride,
                               std::int64_t lanes) noexcept;

/// Host only: whether any of `count` samples is invalid.
[[nodiscard]] inline bool any_invalid(const float* samples, std::int64_t count) noexcept {
  return any_invalid(samples, 1, count, count);
}

}  // namespace penstock

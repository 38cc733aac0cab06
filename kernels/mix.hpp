#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/function_attributes.hpp"
#include "kernels/operation.hpp"
#include "kernels/operator_checks.hpp"

namespace penstock {

/// A fraction of a cycle in units of 2⁻¹²⁸; whole cycles are left out. As the step of an oscillator it is rounded down,
/// so that after 2⁶³ steps the phase is off by less than 2⁻⁶⁵ of a cycle.
struct cycle_fraction {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  bool operator==(const cycle_fraction&) const = default;
  [[nodiscard]] PENSTOCK_HOST_DEVICE cycle_fraction operator+(const cycle_fraction& other) const noexcept {
    const std::uint64_t sum = low + other.low;
    return {high + other.high + (sum < low ? 1U : 0U), sum};
  }
  [[nodiscard]] PENSTOCK_HOST_DEVICE cycle_fraction operator-() const noexcept {
    return {~high + (low == 0 ? 1U : 0U), ~low + 1U};
  }
  [[nodiscard]] PENSTOCK_HOST_DEVICE cycle_fraction operator*(std::uint64_t n) const noexcept {
#ifdef __CUDA_ARCH__
    const std::uint64_t carried = __umul64hi(n, low);
#else
    __extension__ using wide = unsigned __int128;
    const auto carried = static_cast<std::uint64_t>((wide{n} * low) >> 64U);
#endif
    return {n * high + carried, n * low};
  }
};

/// An oscillator: its phase at step n of a session is start + n · step.
struct oscillator {
  cycle_fraction start;
  cycle_fraction step;

  /// At step n, in units of 2⁻⁶⁴ of a cycle.
  [[nodiscard]] PENSTOCK_HOST_DEVICE std::uint64_t phase(std::uint64_t n) const noexcept {
    return (start + step * n).high;
  }
  /// Goes on with another step from step n on, where the phase is the same with both.
  PENSTOCK_HOST_DEVICE void retune(const cycle_fraction& next, std::uint64_t n) noexcept {
    start = start + (step + -next) * n;
    step = next;
  }
};

/// mix: multiplies a session by a numerically controlled oscillator, which moves its spectrum by `frequency`.
///
///   y[n] = x[n] · exp(2πj · (f·n + phase)),   f = frequency / rate,   n from the start of the session
/// The phase is computed modulo a cycle in integers, from the exact ratio of the two numbers as float64: it neither
/// drifts nor depends on how the session is cut into frames, up to 2⁶³ steps (J. Tierney, C. M. Rader, B. Gold, A
/// digital frequency synthesizer, IEEE Trans. Audio Electroacoust. 19, 1971). The oscillator is within 3e-7 of its
/// value.
///
/// Input: f32 or cf32, [N, channels...]; N may be "max N". Steps run along the first dimension; all channels are
/// multiplied by the same oscillator.
/// Output: cf32, the input's shape.
/// Parameters:
///   frequency  finite number, required: cycles a step, in Hz with `rate`; negative moves the spectrum down; tunable:
///              the phase goes on from where it was
///   rate       finite number above 0, in Hz, default 1: steps a second
///   phase      finite number, default 0: cycles at the first step of the session
///   axis       along_axis.hpp
/// State: none but the position in the session; the oscillator, 32 bytes, where the frequency is tuned.
/// NaN and infinities go through the formula in single precision, at their own step.
struct mix_settings {
  oscillator tuned;  ///< as configured
  double rate = 1.0;
  std::int64_t channels = 1;
  bool complex_input = false;
  tensor_spec input;
  tensor_spec output;

  /// A session is what counts the steps; nothing is kept in its state if the frequency does not change.
  [[nodiscard]] static constexpr std::size_t state_bytes(bool is_tuned) noexcept {
    return is_tuned ? sizeof(oscillator) : 1;
  }
};

/// The fraction of `numerator` / `denominator`, rounded down; exact until its last bit. The denominator is above 0.
[[nodiscard]] PENSTOCK_HOST_DEVICE inline cycle_fraction fraction_of(double numerator, double denominator) noexcept {
  constexpr int mantissa = 53;
  constexpr int bits = 128;
  int numerator_exponent = 0;
  int denominator_exponent = 0;
  const auto a = static_cast<std::uint64_t>(ldexp(frexp(fabs(numerator), &numerator_exponent), mantissa));
  const auto b = static_cast<std::uint64_t>(ldexp(frexp(denominator, &denominator_exponent), mantissa));
  // numerator / denominator = a · 2^shift / b, whose bit of weight 2⁻ᵏ is ⌊a · 2^(shift + k) / b⌋ mod 2.
  const int shift = numerator_exponent - denominator_exponent;
  cycle_fraction made;
  // a · 2^place / b, without what is a multiple of 2: of `rest` / b.
  std::uint64_t rest = a % (2 * b);
  for (int place = shift + 1 < 0 ? shift + 1 : 0; place <= shift + bits; ++place) {
    if (place > 0) {
      rest *= 2;
      rest -= rest >= 2 * b ? 2 * b : 0;
    }
    const int k = place - shift;
    if (k < 1) {
      continue;
    }
    const std::uint64_t bit =
        place < 0 ? (place > -64 ? (a / b) >> static_cast<unsigned>(-place) & 1U : 0U) : (rest >= b ? 1U : 0U);
    made = {made.high << 1U | made.low >> 63U, made.low << 1U | bit};
  }
  return numerator < 0.0 ? -made : made;
}

[[nodiscard]] inline double parse_finite(const parameters& settings, const char* key, std::optional<double> absent) {
  const double number = absent ? settings.number(key, *absent) : settings.number(key);
  if (!std::isfinite(number)) {
    throw parameter_error(key, "must be a finite number");
  }
  return number;
}

/// Throws parameter_error.
[[nodiscard]] inline mix_settings parse_mix(const parameters& settings, const tensor_spec& input) {
  require_element_type("mix", input, {element_type::f32, element_type::cf32});
  const double frequency = parse_finite(settings, "frequency", std::nullopt);
  const double rate = parse_finite(settings, "rate", 1.0);
  if (rate <= 0.0) {
    throw parameter_error("rate", "must be above 0: the steps a second of the input");
  }
  mix_settings parsed;
  parsed.tuned = {.start = {.high = fraction_of(parse_finite(settings, "phase", 0.0), 1.0).high},
                  .step = fraction_of(frequency, rate)};
  parsed.rate = rate;
  parsed.channels = input.elements() / input.shape.front();
  parsed.complex_input = is_complex(input.type);
  parsed.input = input;
  parsed.output = input;
  parsed.output.type = element_type::cf32;
  return parsed;
}

/// Throws parameter_error.
[[nodiscard]] inline std::vector<tunable_number> mix_numbers(const parameters& settings,
                                                             std::span<const tensor_spec> inputs) {
  static_cast<void>(parse_mix(settings, inputs.front()));
  return {{"frequency", settings.number("frequency")}};
}

[[nodiscard]] inline std::optional<session_traits> mix_session(const parameters& /*settings*/,
                                                               std::span<const tensor_spec> /*inputs*/) {
  return session_traits{};
}

[[nodiscard]] std::unique_ptr<operation> make_mix_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_mix_cuda(const operation_request& request);

}  // namespace penstock

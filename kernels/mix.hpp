#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "kernels/operation.hpp"
#include "kernels/operator_checks.hpp"

namespace penstock {

/// Steps of an oscillator, as a fraction of a cycle in units of 2⁻¹²⁸: its phase at step n is n times that, modulo a
/// cycle. After 2⁶³ steps it is off by less than 2⁻⁶⁵ of a cycle.
struct oscillator_step {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
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
///   frequency  finite number, required: cycles a step, in Hz with `rate`; negative moves the spectrum down
///   rate       finite number above 0, in Hz, default 1: steps a second
///   phase      finite number, default 0: cycles at the first step of the session
/// State: none but the position in the session.
/// NaN and infinities go through the formula in single precision, at their own step.
struct mix_settings {
  oscillator_step step;
  std::uint64_t phase = 0;  ///< in units of 2⁻⁶⁴ of a cycle
  std::int64_t channels = 1;
  bool complex_input = false;
  tensor_spec input;
  tensor_spec output;

  /// A session is what counts the steps; nothing is kept in its state.
  static constexpr std::size_t state_bytes = 1;
};

/// The phase of step n, in units of 2⁻⁶⁴ of a cycle.
[[nodiscard]] PENSTOCK_HOST_DEVICE inline std::uint64_t oscillator_phase(const oscillator_step& step,
                                                                         std::uint64_t phase, std::uint64_t n) {
#ifdef __CUDA_ARCH__
  const std::uint64_t carried = __umul64hi(n, step.low);
#else
  __extension__ using wide = unsigned __int128;
  const auto carried = static_cast<std::uint64_t>((wide{n} * step.low) >> 64U);
#endif
  return phase + n * step.high + carried;
}

/// The fraction of `numerator` / `denominator`, rounded down; exact until its last bit.
[[nodiscard]] inline oscillator_step oscillator_step_of(double numerator, double denominator) {
  constexpr int mantissa = std::numeric_limits<double>::digits;
  int numerator_exponent = 0;
  int denominator_exponent = 0;
  const auto a = static_cast<std::uint64_t>(std::ldexp(std::frexp(std::abs(numerator), &numerator_exponent), mantissa));
  const auto b = static_cast<std::uint64_t>(std::ldexp(std::frexp(denominator, &denominator_exponent), mantissa));
  // |numerator| / denominator = a · 2^shift / b, whose bit of weight 2⁻ᵏ is ⌊a · 2^(shift + k) / b⌋ mod 2.
  const int shift = numerator_exponent - denominator_exponent;
  auto bit_at = [&, rest = a % (2 * b), at = 0](int place) mutable {
    if (place < 0) {
      return place > -64 ? (a / b) >> static_cast<unsigned>(-place) & 1U : 0U;
    }
    for (; at < place; ++at) {
      rest = 2 * rest % (2 * b);
    }
    return rest >= b ? std::uint64_t{1} : std::uint64_t{0};
  };
  oscillator_step made;
  for (int k = 1; k <= 128; ++k) {
    std::uint64_t& word = k <= 64 ? made.high : made.low;
    word = word << 1U | bit_at(shift + k);
  }
  if (std::signbit(numerator)) {
    made.low = ~made.low + 1;
    made.high = ~made.high + (made.low == 0 ? 1 : 0);
  }
  return made;
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
  parsed.step = oscillator_step_of(frequency, rate);
  parsed.phase = oscillator_step_of(parse_finite(settings, "phase", 0.0), 1.0).high;
  parsed.channels = input.elements() / input.shape.front();
  parsed.complex_input = is_complex(input.type);
  parsed.input = input;
  parsed.output = input;
  parsed.output.type = element_type::cf32;
  return parsed;
}

[[nodiscard]] inline std::optional<session_traits> mix_session(const parameters& /*settings*/,
                                                               std::span<const tensor_spec> /*inputs*/) {
  return session_traits{};
}

[[nodiscard]] std::unique_ptr<operation> make_mix_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_mix_cuda(const operation_request& request);

}  // namespace penstock

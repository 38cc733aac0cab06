#include <cmath>
#include <limits>
#include <numbers>
#include <string>

#include "kernels/channelize.hpp"
#include "kernels/resample.hpp"

namespace penstock {
namespace {

constexpr std::int64_t most_rate_factor = 65536;
constexpr std::int64_t most_designed_factor = 16384;

/// The modified Bessel function I₀ by its series, whose terms are all positive.
double bessel_i0(double x) noexcept {
  const double quarter = x * x / 4.0;
  double sum = 1.0;
  double term = 1.0;
  for (double k = 1.0; term > sum * std::numeric_limits<double>::epsilon() / 4.0; ++k) {
    term *= quarter / (k * k);
    sum += term;
  }
  return sum;
}

/// The filter of resample_poly, behind zeros.
void design(resample_settings& parsed) {
  const std::int64_t common = std::gcd(parsed.up, parsed.down);
  parsed.up /= common;
  parsed.down /= common;
  const std::int64_t larger = std::max(parsed.up, parsed.down);
  if (larger > most_designed_factor) {
    throw parameter_error(parsed.up == larger ? "up" : "down",
                          "must be at most " + std::to_string(most_designed_factor) +
                              " without taps, once it has no factor in common with the other, not " +
                              std::to_string(larger));
  }
  const std::int64_t half = 10 * larger;
  const std::int64_t before = (parsed.down - half % parsed.down) % parsed.down;
  parsed.taps.assign(static_cast<std::size_t>(before), 0.0F);
  for (const double tap : kaiser_low_pass(2 * half + 1, 1.0 / static_cast<double>(larger), 5.0)) {
    parsed.taps.push_back(static_cast<float>(tap * static_cast<double>(parsed.up)));
  }
  parsed.delay = static_cast<double>(half + before) / static_cast<double>(parsed.up);
}

}  // namespace

std::vector<double> kaiser_low_pass(std::int64_t count, double cutoff, double beta) {
  std::vector<double> taps;
  const double middle = static_cast<double>(count - 1) / 2.0;
  double sum = 0.0;
  for (std::int64_t k = 0; k < count; ++k) {
    const double from_middle = static_cast<double>(k) - middle;
    const double x = std::numbers::pi * cutoff * from_middle;
    const double sinc = from_middle == 0.0 ? 1.0 : std::sin(x) / x;
    const double place = middle == 0.0 ? 0.0 : from_middle / middle;
    taps.push_back(cutoff * sinc * bessel_i0(beta * std::sqrt(1.0 - place * place)) / bessel_i0(beta));
    sum += taps.back();
  }
  for (double& tap : taps) {
    tap /= sum;
  }
  return taps;
}

resample_settings parse_resample(const parameters& settings, const tensor_spec& input) {
  require_element_type("resample", input, {element_type::f32, element_type::cf32});
  resample_settings parsed;
  parsed.up = parse_integer(settings, "up", 1, most_rate_factor, 1);
  parsed.down = parse_integer(settings, "down", 1, most_rate_factor, 1);
  if (settings.has("taps")) {
    parsed.taps = parse_fir_taps(settings, "taps");
    parsed.taps_imag = parse_fir_taps_imag(settings, parsed.taps.size());
    parsed.delay = has_linear_phase(parsed.taps, parsed.taps_imag)
                       ? static_cast<double>(parsed.length() - 1) / 2.0 / static_cast<double>(parsed.up)
                       : 0.0;
  } else if (settings.has("taps_imag")) {
    throw parameter_error("taps_imag", "needs taps, the real parts");
  } else {
    design(parsed);
  }
  const step_rate rate = parsed.rate();
  const std::int64_t steps = input.shape.front();
  if (!input.variable && steps % rate.divisor != 0) {
    throw parameter_error("down", "must divide the " + std::to_string(steps) + " steps of " + input.text() +
                                      " times up: use frames of a multiple of " + std::to_string(rate.divisor) +
                                      ", or \"max " + std::to_string(steps) + "\"");
  }
  if (rate.most(steps) > std::numeric_limits<std::int32_t>::max()) {
    throw parameter_error("up", "makes more than 2147483647 steps of a frame");
  }
  parsed.channels = input.elements() / steps;
  parsed.kept = std::max<std::int64_t>(parsed.phase_taps() - 1, 1);
  parsed.input = input;
  parsed.output = input;
  parsed.output.type = parsed.complex_taps() ? element_type::cf32 : input.type;
  parsed.output.shape.front() = rate.most(steps);
  return parsed;
}

channelize_settings parse_channelize(const parameters& settings, const tensor_spec& input) {
  require_element_type("channelize", input, {element_type::f32, element_type::cf32});
  channelize_settings parsed;
  parsed.channels = parse_integer(settings, "channels", 2, most_rate_factor);
  parsed.hop = parse_integer(settings, "hop", 1, parsed.channels, parsed.channels);
  if (settings.has("taps")) {
    parsed.taps = parse_fir_taps(settings, "taps");
    if (parsed.length() > 64 * parsed.channels) {
      throw parameter_error("taps", "must be at most 64 a channel, " + std::to_string(64 * parsed.channels) + ", not " +
                                        std::to_string(parsed.length()));
    }
  } else {
    if (parsed.channels > most_designed_factor) {
      throw parameter_error("channels", "must be at most " + std::to_string(most_designed_factor) +
                                            " without taps, not " + std::to_string(parsed.channels));
    }
    for (const double tap :
         kaiser_low_pass(20 * parsed.channels + 1, 1.0 / static_cast<double>(parsed.channels), 5.0)) {
      parsed.taps.push_back(static_cast<float>(tap));
    }
  }
  const std::int64_t steps = input.shape.front();
  if (!input.variable && steps % parsed.hop != 0) {
    throw parameter_error(settings.has("hop") ? "hop" : "channels",
                          "must divide the " + std::to_string(steps) + " steps of " + input.text() +
                              ": use frames of a multiple of it, or \"max " + std::to_string(steps) + "\"");
  }
  parsed.delay = has_linear_phase(parsed.taps, {}) ? static_cast<double>(parsed.length() - 1) / 2.0 : 0.0;
  parsed.inputs = input.elements() / steps;
  parsed.kept = std::max<std::int64_t>(parsed.length() - 1, 1);
  parsed.input = input;
  parsed.output = input;
  parsed.output.type = element_type::cf32;
  parsed.output.shape.front() = parsed.rate().most(steps);
  parsed.output.shape.push_back(parsed.channels);
  return parsed;
}

}  // namespace penstock

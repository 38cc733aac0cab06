#include "kernels/fir.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "kernels/operation_input.hpp"

namespace penstock {
namespace {

constexpr std::size_t most_taps = 65536;

std::vector<float> parse_taps(const parameters& settings, const char* key) {
  std::vector<float> taps;
  for (const double tap : settings.numbers(key)) {
    if (!(std::abs(tap) <= static_cast<double>(std::numeric_limits<float>::max()))) {
      throw parameter_error(key, "must be finite numbers within f32's range");
    }
    taps.push_back(static_cast<float>(tap));
  }
  if (taps.empty() || taps.size() > most_taps) {
    throw parameter_error(key,
                          "must be 1 to " + std::to_string(most_taps) + " numbers, not " + std::to_string(taps.size()));
  }
  return taps;
}

std::int64_t parse_decimation(const parameters& settings, const tensor_spec& input) {
  const std::int64_t decimation = settings.integer("decimation", 1);
  if (decimation < 1 || decimation > std::numeric_limits<std::int32_t>::max()) {
    throw parameter_error("decimation", "must be from 1 to 2147483647, not " + std::to_string(decimation));
  }
  const std::string steps = std::to_string(input.shape.front());
  if (!input.variable && input.shape.front() % decimation != 0) {
    throw parameter_error("decimation", "must divide the " + steps + " steps of " + input.text() +
                                            ": use frames of a multiple of it, or \"max " + steps + "\"");
  }
  return decimation;
}

}  // namespace

fir_settings parse_fir(const parameters& settings, const tensor_spec& input) {
  require_element_type("fir", input, {element_type::f32, element_type::cf32});
  fir_settings parsed;
  parsed.taps = parse_taps(settings, "taps");
  if (settings.has("taps_imag")) {
    parsed.taps_imag = parse_taps(settings, "taps_imag");
    if (parsed.taps_imag.size() != parsed.taps.size()) {
      throw parameter_error("taps_imag", "must be as many numbers as taps, " + std::to_string(parsed.taps.size()) +
                                             ", not " + std::to_string(parsed.taps_imag.size()));
    }
  }
  parsed.decimation = parse_decimation(settings, input);
  parsed.method = parse_sum_method(settings);
  parsed.channels = input.elements() / input.shape.front();
  parsed.kept = std::max<std::int64_t>(parsed.length() - 1, 1);
  parsed.input = input;
  parsed.output = input;
  parsed.output.type = parsed.complex_taps() ? element_type::cf32 : input.type;
  parsed.output.shape.front() = parsed.rate().most(input.shape.front());
  return parsed;
}

tensor_spec infer_fir(const parameters& settings, std::span<const tensor_spec> inputs) {
  return parse_fir(settings, sole_input("fir", inputs)).output;
}

session_traits fir_session(const parameters& settings, std::span<const tensor_spec> inputs) {
  return {.whole_frames = false, .rate = parse_fir(settings, sole_input("fir", inputs)).rate()};
}

}  // namespace penstock

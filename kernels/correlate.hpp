#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/operation.hpp"
#include "kernels/operator_checks.hpp"
#include "kernels/overlap_save.hpp"

namespace penstock {

/// correlate: each row x of N samples against a template h of M, as scipy.signal.correlate does it; a matched filter.
///
///   y[k] = sum_n x[n + k - (M - 1)] · conj(h[n]),  k = 0 … N + M - 2,  x being 0 outside of its row
///
/// Inputs: the signal, f32 or cf32, whose last extent is fixed; and, where `template` isn't given, the templates, f32
/// or cf32: [M], one for all rows of its frame, or the signal's leading extents and [M], one for each row. A bank of K
/// templates, each for all of those rows, has [K, M] in place of [M].
/// Output: f32 where both are real, else cf32; the signal's leading extents, of a bank [K], and
///   mode "full"   N + M - 1: every k
///        "same"   N: from k = (M - 1) / 2 on
///        "valid"  |N - M| + 1: from k = min(N, M) - 1 on; no terms beyond the ends of x or h
/// Parameters:
///   template       list of numbers, finite in f32; h, or its real part
///   template_imag  list of as many numbers: the imaginary part of h; makes it complex
///   templates      K, 1 … 65536: a bank; `template` has one after the other
///   mode           "full" (default) | "same" | "valid"
///   method         "auto" (default): whichever is faster | "direct": the sum | "fft": overlap-save by the Fourier
///                  transform (overlap_save.hpp)
/// Each result is within 1e-6 of sum |h| times the largest |x| of its own terms, whatever else its row holds. A NaN or
/// an infinity makes the results that it is a term of not finite, and no others.
struct correlate_settings {
  bool complex_signal = false;
  bool complex_template = false;
  sum_method method = sum_method::automatic;
  std::int64_t length = 0;           ///< N
  std::int64_t template_length = 0;  ///< M
  std::int64_t first = 0;            ///< k of a row's first result
  std::int64_t results = 0;          ///< of a row
  std::int64_t bank = 1;             ///< K: templates that each row meets
  std::vector<float> coefficients;   ///< `template`, (re, im) pairs when complex; empty: the second input
  bool template_per_row = false;     ///< the second input has templates for each row, not for each frame
  frame_rows rows;                   ///< of the signal; the output has `bank` times as many
  tensor_spec output;

  [[nodiscard]] bool complex_output() const noexcept { return complex_signal || complex_template; }
  /// The sample, relative to the start of the row, that the first result multiplies with h[0]. It does not lie after
  /// the start of the row, and the last result reaches its end.
  [[nodiscard]] std::int64_t start() const noexcept { return first - (template_length - 1); }
  /// Maximum terms of a sum.
  [[nodiscard]] std::int64_t terms() const noexcept { return length < template_length ? length : template_length; }
  /// Number of consecutive rows that share a template, or a bank.
  [[nodiscard]] std::int64_t rows_per_template(const batch_extent& extent) const noexcept {
    return !coefficients.empty() ? rows.count(extent)
           : template_per_row    ? 1
                                 : rows.count({.frames = 1, .leading = extent.leading});
  }
};

[[nodiscard]] inline std::vector<double> parse_template_part(const parameters& settings, const char* key) {
  std::vector<double> numbers = settings.numbers(key);
  if (numbers.empty()) {
    throw parameter_error(key, "must have at least one number");
  }
  if (!std::all_of(numbers.begin(), numbers.end(), is_finite_f32)) {
    throw parameter_error(key, "must hold finite numbers within f32's range");
  }
  return numbers;
}

inline void parse_correlate_template(const parameters& settings, correlate_settings& parsed) {
  const std::vector<double> real = parse_template_part(settings, "template");
  parsed.complex_template = settings.has("template_imag");
  const std::vector<double> imaginary =
      parsed.complex_template ? parse_template_part(settings, "template_imag") : std::vector<double>{};
  if (parsed.complex_template && imaginary.size() != real.size()) {
    throw parameter_error("template_imag", "must have as many numbers as 'template', " + std::to_string(real.size()) +
                                               ", not " + std::to_string(imaginary.size()));
  }
  parsed.template_length = static_cast<std::int64_t>(real.size()) / parsed.bank;
  if (parsed.template_length * parsed.bank != static_cast<std::int64_t>(real.size())) {
    throw parameter_error("template", "has " + std::to_string(real.size()) + " numbers, which " +
                                          std::to_string(parsed.bank) + " templates of one length do not have");
  }
  for (std::size_t n = 0; n < real.size(); ++n) {
    parsed.coefficients.push_back(static_cast<float>(real[n]));
    if (parsed.complex_template) {
      parsed.coefficients.push_back(static_cast<float>(imaginary[n]));
    }
  }
}

/// `is_bank`: [K, M] stands for [M].
inline void use_template_input(const tensor_spec& signal, const tensor_spec& given, bool is_bank,
                               correlate_settings& parsed) {
  require_element_type("correlate", given, {element_type::f32, element_type::cf32});
  require_fixed_last_axis("correlate", given);
  const std::size_t own = is_bank ? 2 : 1;
  const std::size_t leading = signal.shape.size() - 1;
  const auto count = given.shape.size();
  const bool fits = given.variable == signal.variable && count == leading + own &&
                    std::equal(signal.shape.begin(), signal.shape.end() - 1, given.shape.begin());
  if (!fits && (count != own || given.variable)) {
    throw parameter_error("from",
                          std::string("'correlate' takes ") +
                              (is_bank ? "a bank of two dimensions, or behind the signal's leading extents, not "
                                       : "templates of one dimension or of the signal's leading extents, not ") +
                              given.text() + " for " + signal.text());
  }
  if (is_bank && given.shape[count - 2] != parsed.bank) {
    throw parameter_error("templates",
                          "is " + std::to_string(parsed.bank) + ", but the second input is " + given.text());
  }
  parsed.complex_template = is_complex(given.type);
  parsed.template_length = given.shape.back();
  parsed.template_per_row = count != own;
}

inline void parse_correlate_mode(const parameters& settings, correlate_settings& parsed) {
  const std::int64_t n = parsed.length;
  const std::int64_t m = parsed.template_length;
  switch (parse_choice(settings, "mode", {"full", "same", "valid"})) {
    case 0:
      parsed.first = 0;
      parsed.results = n + m - 1;
      break;
    case 1:
      parsed.first = (m - 1) / 2;
      parsed.results = n;
      break;
    default:
      parsed.first = parsed.terms() - 1;
      parsed.results = std::abs(n - m) + 1;
  }
}

inline void require_one_template(const parameters& settings, std::size_t inputs) {
  if (inputs != 1 && inputs != 2) {
    throw parameter_error(
        "from", "'correlate' takes a signal, or a signal and its templates, not " + std::to_string(inputs) + " inputs");
  }
  if (inputs == 1 && !settings.has("template")) {
    throw parameter_error("template", "is missing; a second input can give the templates instead");
  }
  for (const char* const key : {"template", "template_imag"}) {
    if (inputs == 2 && settings.has(key)) {
      throw parameter_error(key, "is not for a stage whose second input gives the templates");
    }
  }
}

/// Throws parameter_error.
[[nodiscard]] inline correlate_settings parse_correlate(const parameters& settings,
                                                        std::span<const tensor_spec> inputs) {
  require_one_template(settings, inputs.size());
  const tensor_spec& signal = inputs.front();
  require_element_type("correlate", signal, {element_type::f32, element_type::cf32});
  require_fixed_last_axis("correlate", signal);
  correlate_settings parsed;
  parsed.complex_signal = is_complex(signal.type);
  parsed.length = signal.shape.back();
  parsed.rows = frame_rows{signal};
  parsed.bank = parse_integer(settings, "templates", 1, 65536, 1);
  const bool is_bank = settings.has("templates");
  if (inputs.size() == 1) {
    parse_correlate_template(settings, parsed);
  } else {
    use_template_input(signal, inputs[1], is_bank, parsed);
  }
  parse_correlate_mode(settings, parsed);
  parsed.method = parse_sum_method(settings);
  parsed.output = signal;
  parsed.output.type = parsed.complex_output() ? element_type::cf32 : element_type::f32;
  parsed.output.shape.back() = parsed.results;
  if (is_bank) {
    parsed.output.shape.insert(parsed.output.shape.end() - 1, parsed.bank);
  }
  return parsed;
}

[[nodiscard]] std::unique_ptr<operation> make_correlate_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_correlate_cuda(const operation_request& request);

/// How "fft" cuts a row. Block b begins start() + b · step samples after the row's start.
[[nodiscard]] inline overlap_save_blocks plan_correlate_blocks(const correlate_settings& settings) {
  // If the samples that one transform of the whole row covers begin and end with zeros, a wrap from one end to the
  // other meets zeros only.
  const std::int64_t covered = settings.results + settings.template_length - 1;
  const std::int64_t before = -settings.start();
  const std::int64_t behind = covered - before - settings.length;
  return plan_overlap_save(settings.results, settings.template_length, covered - std::min(before, behind));
}

}  // namespace penstock

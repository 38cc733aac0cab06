#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/invalid_samples.hpp"
#include "kernels/operation.hpp"
#include "kernels/operator_checks.hpp"

namespace penstock {

/// One biquad, with a0 = 1: y[n] = b0·x[n] + b1·x[n-1] + b2·x[n-2] - a1·y[n-1] - a2·y[n-2].
struct iir_section {
  double b0;
  double b1;
  double b2;
  double a1;
  double a2;
};

/// iir: a cascade of biquads along each channel of a session, like scipy.signal.sosfilt, at rest at the start of the
/// session. In float64, in transposed direct form II.
///
/// Input: f32 or cf32 (the coefficients act on both parts), any shape; time runs along the first dimension.
/// Output: the input's spec.
/// State: two float64 values a section and channel, for cf32 of each part.
/// Parameters:
///   sections  6·S numbers, b0 b1 b2 a0 a1 a2 of each section in order; 1 ≤ S ≤ 64, a0 ≠ 0, poles inside the unit
///             circle; required
///   on_nan    what an invalid sample, a NaN or an infinity, does to its channel (for cf32, to its part):
///             "spread" (default): it makes the rest of the session not finite
///             "reset": the output is NaN at it, and the filter begins behind it, at rest
///             "hold":  the output is NaN at it, and the filter goes on behind it as if it had not come
///   axis      along_axis.hpp
/// With "reset" and "hold" each channel is filtered one step after the other on CUDA. On the host a
/// state below 1e-100 at the end of a frame becomes zero, since arithmetic on denormal numbers is slow.
///
/// On CUDA the steps of a channel are filtered in parallel: each thread filters a few steps from rest, a scan joins the
/// states that this leaves by powers of the sections' state matrices, and each thread filters its steps again from its
/// true state. Long frames are divided over many blocks in the same way, by powers of the state matrix of the whole
/// cascade, for at most 16 sections.
struct iir_settings {
  std::vector<iir_section> sections;
  std::int64_t lanes = 1;  ///< real values of a step
  bool complex_input = false;
  invalid_samples on_nan = invalid_samples::spread;
  tensor_spec input;
  tensor_spec output;

  /// Real values from one frame of the batch to the next.
  [[nodiscard]] std::int64_t pitch(const batch_extent& extent) const noexcept {
    return input.elements(extent.leading) * (complex_input ? 2 : 1);
  }
  /// The state is sections × 2 × lanes.
  [[nodiscard]] std::size_t state_bytes() const noexcept {
    return sections.size() * 2 * static_cast<std::size_t>(lanes) * sizeof(double);
  }
};

inline constexpr std::size_t max_iir_sections = 64;

[[noreturn]] inline void refuse_iir_section(std::size_t index, const std::string& message) {
  throw parameter_error("sections", "section " + std::to_string(index) + " (counted from 0) " + message);
}

[[nodiscard]] inline iir_section parse_iir_section(std::span<const double> numbers, std::size_t index) {
  if (!std::all_of(numbers.begin(), numbers.end(), [](double number) { return std::isfinite(number); })) {
    refuse_iir_section(index, "must be six finite numbers");
  }
  const double a0 = numbers[3];
  if (a0 == 0.0) {
    refuse_iir_section(index, "has a0 = 0; its six numbers are b0 b1 b2 a0 a1 a2");
  }
  const iir_section section{numbers[0] / a0, numbers[1] / a0, numbers[2] / a0, numbers[4] / a0, numbers[5] / a0};
  for (const double scaled : {section.b0, section.b1, section.b2, section.a1, section.a2}) {
    if (!std::isfinite(scaled)) {
      refuse_iir_section(index, "must stay finite when it is divided by its a0");
    }
  }
  if (std::abs(section.a2) >= 1.0 || std::abs(section.a1) >= 1.0 + section.a2) {
    refuse_iir_section(
        index, "is unstable: its poles must lie inside the unit circle, |a2| < 1 and |a1| < 1 + a2 with a0 = 1");
  }
  return section;
}

/// Throws parameter_error.
[[nodiscard]] inline iir_settings parse_iir(const parameters& settings, const tensor_spec& input) {
  require_element_type("iir", input, {element_type::f32, element_type::cf32});
  const std::vector<double> numbers = settings.numbers("sections");
  if (numbers.empty() || numbers.size() % 6 != 0 || numbers.size() > 6 * max_iir_sections) {
    throw parameter_error("sections", "must be 6 numbers (b0 b1 b2 a0 a1 a2) for each of 1 to " +
                                          std::to_string(max_iir_sections) + " sections, not " +
                                          std::to_string(numbers.size()));
  }
  iir_settings parsed;
  for (std::size_t index = 0; index < numbers.size() / 6; ++index) {
    parsed.sections.push_back(parse_iir_section(std::span{numbers}.subspan(6 * index, 6), index));
  }
  parsed.complex_input = is_complex(input.type);
  parsed.lanes = input.elements() / input.shape.front() * (parsed.complex_input ? 2 : 1);
  parsed.on_nan = parse_on_nan(settings);
  parsed.input = input;
  parsed.output = input;
  return parsed;
}

[[nodiscard]] inline std::optional<session_traits> iir_session(const parameters& /*settings*/,
                                                               std::span<const tensor_spec> /*inputs*/) {
  return session_traits{};
}

[[nodiscard]] std::unique_ptr<operation> make_iir_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_iir_cuda(const operation_request& request);

}  // namespace penstock

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/operation.hpp"

namespace penstock {

/// One biquad, with a0 = 1: y[n] = b0·x[n] + b1·x[n-1] + b2·x[n-2] - a1·y[n-1] - a2·y[n-2].
struct iir_section {
  double b0;
  double b1;
  double b2;
  double a1;
  double a2;
};

/// iir: a cascade of biquads along each channel of a session, as scipy.signal.sosfilt does it, at rest at the session's
/// start. In float64, as transposed direct form II.
///
/// Input: f32 or cf32 (the coefficients act on both parts), any shape; time runs along the first dimension.
/// Output: the input's spec.
/// Keeps two float64 values a section and channel, of cf32 for each part.
/// Parameters:
///   sections  6·S numbers, b0 b1 b2 a0 a1 a2 of each section in their order, 1 ≤ S ≤ 64, a0 ≠ 0, poles inside the unit
///             circle; required
/// A NaN or an infinity stays in its channel (of cf32, in its part) for the rest of the session: it leaves NaN, or
/// infinities. On the host a state below 1e-100 at the end of a frame counts as zero, as arithmetic beneath the
/// smallest normal numbers is slow.
///
/// On CUDA the steps of one channel are taken side by side: each thread filters a few steps from rest, the states that
/// these leave are joined by the powers of the sections' state matrices (a scan), and each thread filters its steps
/// again from the state that it then knows. Long frames are shared by many blocks in the same way, by the powers of the
/// whole cascade's state matrix, where there are at most 16 sections.
struct iir_settings {
  std::vector<iir_section> sections;
  std::int64_t lanes = 1;  ///< real values of a step
  bool complex_input = false;
  tensor_spec input;

  /// Real values from one frame of the batch to the next.
  [[nodiscard]] std::int64_t pitch(const batch_extent& extent) const noexcept {
    return input.elements(extent.leading) * (complex_input ? 2 : 1);
  }
  /// The state is sections × 2 × lanes.
  [[nodiscard]] std::size_t state_bytes() const noexcept {
    return sections.size() * 2 * static_cast<std::size_t>(lanes) * sizeof(double);
  }
};

inline constexpr std::size_t most_iir_sections = 64;

/// Throws parameter_error.
[[nodiscard]] iir_settings parse_iir(const parameters& settings, const tensor_spec& input);
[[nodiscard]] tensor_spec infer_iir(const parameters& settings, std::span<const tensor_spec> inputs);
[[nodiscard]] session_traits iir_session(const parameters& settings, std::span<const tensor_spec> inputs);
[[nodiscard]] std::unique_ptr<operation> make_iir_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_iir_cuda(const operation_request& request);

}  // namespace penstock

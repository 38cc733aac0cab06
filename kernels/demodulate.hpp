#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "kernels/function_attributes.hpp"
#include "kernels/operation.hpp"
#include "kernels/operator_checks.hpp"
#include "kernels/session.hpp"

namespace penstock {

enum class modulation { fm, am, pm };

/// demodulate: what was modulated onto a carrier at frequency 0, times `gain`.
///
///   fm: y[n] = gain · arg(z[n] · conj(z[n − 1])), -π … π: radians a step; z[-1] = 0, so y[0] = 0
///   am: y[n] = gain · |z[n]|
///   pm: y[n] = gain · φ[n], the phase arg(z[n]) plus the multiple of 2π that leaves no step of more than π
/// Along a session; am is a function of each sample alone and keeps no state. The phase unwraps as numpy.unwrap does;
/// its turns are counted in integers. GNU Radio's quadrature_demod_cf is fm.
/// Angles are computed in float64 on the host, in single precision from products of float64 on CUDA: within 4e-7 of
/// themselves, whatever the level of the signal.
///
/// Input: cf32, [N, channels...]; N may be "max N". Steps run along the first dimension; each channel is demodulated by
/// itself.
/// Output: f32, the input's shape.
/// Parameters:
///   kind  "fm" | "am" | "pm", required
///   gain  finite in f32, default 1; for fm in Hz: sample rate / 2π
///   axis  along_axis.hpp
/// State: the last step, and for pm the turns at it, of every channel.
/// A NaN or an infinity makes the phases that it contributes to NaN, and no others: the turns go on as if the phase had
/// not changed there. am follows the rules of floating point.
struct demodulate_settings {
  modulation kind = modulation::fm;
  float gain = 1.0F;
  std::int64_t channels = 1;
  tensor_spec input;
  tensor_spec output;

  [[nodiscard]] std::size_t state_bytes() const noexcept {
    const auto lanes = static_cast<std::size_t>(channels);
    return kind == modulation::am   ? 0
           : kind == modulation::fm ? lanes * 2 * sizeof(float)
                                    : lanes * (2 * sizeof(float) + sizeof(std::int64_t));
  }
  /// The turns of each channel, behind the last step, in a half of the state.
  [[nodiscard]] PENSTOCK_HOST_DEVICE static std::int64_t* turns(std::byte* half, std::int64_t channels) noexcept {
    return reinterpret_cast<std::int64_t*>(half + static_cast<std::size_t>(channels) * 2 * sizeof(float));
  }
};

/// The change of the whole turns from one phase to the next: -1, 0 or 1. 0 where one of them is NaN.
template <class Real>
[[nodiscard]] PENSTOCK_HOST_DEVICE constexpr int turn_between(Real before, Real after) noexcept {
  constexpr Real half_turn = static_cast<Real>(3.14159265358979323846);
  const Real change = after - before;
  return change > half_turn ? -1 : change < -half_turn ? 1 : 0;
}

/// Throws parameter_error.
[[nodiscard]] inline demodulate_settings parse_demodulate(const parameters& settings, const tensor_spec& input) {
  require_element_type("demodulate", input, {element_type::cf32});
  if (!settings.has("kind")) {
    throw parameter_error("kind", R"(is missing: "fm", "am" or "pm")");
  }
  demodulate_settings parsed;
  parsed.kind = static_cast<modulation>(parse_choice(settings, "kind", {"fm", "am", "pm"}));
  parsed.gain = parse_f32("gain", settings.number("gain", 1.0));
  parsed.channels = input.elements() / input.shape.front();
  parsed.input = input;
  parsed.output = input;
  parsed.output.type = element_type::f32;
  return parsed;
}

[[nodiscard]] inline std::optional<session_traits> demodulate_session(const parameters& settings,
                                                                      std::span<const tensor_spec> inputs) {
  const demodulate_settings parsed = parse_demodulate(settings, sole_input("demodulate", inputs));
  return parsed.state_bytes() == 0 ? std::nullopt : std::optional(session_traits{});
}

[[nodiscard]] std::unique_ptr<operation> make_demodulate_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_demodulate_cuda(const operation_request& request);

}  // namespace penstock

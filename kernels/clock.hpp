#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "kernels/function_attributes.hpp"
#include "kernels/operation.hpp"
#include "kernels/operator_checks.hpp"
#include "kernels/session.hpp"

namespace penstock {

enum class timing_detector { mueller_muller, gardner };
enum class clock_output { symbols, bits, differential };

/// What a clock is at the start of a session and in its loop.
struct clock_loop {
  timing_detector detector = timing_detector::mueller_muller;
  clock_output output = clock_output::symbols;
  double omega = 2;  ///< steps a symbol
  double limit = 0;  ///< of the difference of omega from that
  double gain_omega = 0;
  double gain_mu = 0;
  double mu = 0;
};

/// clock: symbol timing recovery along a session: samples a signal once a symbol, at a time that a loop holds in the
/// middle of the symbols.
///
/// Symbol k is s[k] = x(τ[k]), of x between the steps by the cubic through the four next ones (L. Erup, F. M. Gardner,
/// R. A. Harris, Interpolation in digital modems, part II, IEEE Trans. Comm. 41, 1993); x = 0 before the session's
/// first step. With τ[0] = mu and ω[-1] = omega:
///   e[k] = sgn(s[k − 1]) · s[k] − sgn(s[k]) · s[k − 1]          "mueller-muller" (K. H. Mueller, M. Müller, Timing
///                                                              recovery in digital synchronous data receivers, IEEE
///                                                              Trans. Comm. 24, 1976); sgn(0) = -1
///   e[k] = (s[k − 1] − s[k]) · x(τ[k] − ω[k − 1] / 2)           "gardner" (F. M. Gardner, A BPSK/QPSK timing-error
///                                                              detector for sampled receivers, 34, 1986)
///   ω[k] = ω[k − 1] + gain_omega · e[k], held within omega · (1 ± limit)
///   τ[k + 1] = τ[k] + ω[k] + gain_mu · e[k], the last term held within ± ω[k] / 2
/// s[-1] = 0. An e that is not finite counts as 0. In float64. The loop and its limits are those of GNU Radio's
/// clock_recovery_mm_ff, which interpolates with eight steps. A symbol comes with the second step after its place;
/// results do not depend on how the session is cut into frames.
///
/// Input: f32, [N, channels...]; N may be "max N". Steps run along the first dimension, each channel has a clock.
/// Output: f32, [channels..., 1 + S], S = ⌊2·N / (omega · (1 − limit))⌋ + 2: the number of symbols that a frame gives,
/// then these; the rest is 0. One such block for each frame.
/// Parameters:
///   omega       number from 1.5 to 65536, required: steps a symbol
///   detector    "mueller-muller" (default) | "gardner"
///   gain_mu     number from 0 to 10, default 0.175
///   gain_omega  number from 0 to 10, default gain_mu² / 4, at most 10
///   limit       number from 0 to 0.5, default 0.005
///   mu          number from 0 to below 1, default 0.5: where the first symbol is
///   output      "symbols" (default): s | "bits": 1 where s > 0, else 0 | "differential": 1 where the bit is another
///   than
///               the one before it, which is 0 at the start
///   axis        along_axis.hpp
/// State: the steps that may still be looked at, and the loop's numbers, of each channel.
/// A NaN or an infinity reaches the symbols that are interpolated from it. Bits of NaN are 0.
struct clock_settings {
  clock_loop loop;
  std::int64_t channels = 1;
  std::int64_t kept = 1;   ///< steps of the state
  std::int64_t block = 1;  ///< elements of a channel's output
  tensor_spec input;
  tensor_spec output;

  [[nodiscard]] std::size_t state_bytes() const noexcept;
};

/// A channel's loop between two frames.
struct clock_state {
  double mu = 0;
  double omega = 0;
  double last = 0;        ///< the symbol before
  std::int64_t step = 0;  ///< the next symbol stands at step + mu, counted from the first step of the next frame

  /// The states of a session's channels, behind the steps that are kept. Aligned to 8 bytes.
  [[nodiscard]] PENSTOCK_HOST_DEVICE static clock_state* of(std::byte* half, std::int64_t kept_elements) noexcept {
    return reinterpret_cast<clock_state*>(half + (static_cast<std::size_t>(kept_elements) * sizeof(float) + 7) / 8 * 8);
  }
};

inline std::size_t clock_settings::state_bytes() const noexcept {
  return (static_cast<std::size_t>(kept * channels) * sizeof(float) + 7) / 8 * 8 +
         static_cast<std::size_t>(channels) * sizeof(clock_state);
}

/// The cubic through x at -1, 0, 1 and 2, at `mu`.
[[nodiscard]] PENSTOCK_HOST_DEVICE inline double cubic_between(double before, double first, double second, double after,
                                                               double mu) noexcept {
  const double third = (after - before) / 6.0 + (first - second) / 2.0;
  const double square = (before + second) / 2.0 - first;
  const double linear = second - before / 3.0 - first / 2.0 - after / 6.0;
  return ((third * mu + square) * mu + linear) * mu + first;
}

/// Takes one channel through one frame: at(step) gives its steps, from −kept on; put(value) takes a symbol.
template <class At, class Put>
PENSTOCK_HOST_DEVICE void run_clock(const clock_loop& loop, std::int64_t steps, clock_state& state, const At& at,
                                    const Put& put) {
  const auto value_at = [&](std::int64_t step, double mu) {
    return cubic_between(at(step - 1), at(step), at(step + 1), at(step + 2), mu);
  };
  while (state.step + 2 < steps) {
    const double symbol = value_at(state.step, state.mu);
    double error = 0;
    if (loop.detector == timing_detector::mueller_muller) {
      error = (state.last > 0 ? symbol : -symbol) - (symbol > 0 ? state.last : -state.last);
    } else {
      const double middle = state.mu - state.omega / 2;
      const double whole = floor(middle);
      error = (state.last - symbol) * value_at(state.step + static_cast<std::int64_t>(whole), middle - whole);
    }
    error = error - error == 0 ? error : 0;
    const bool bit = symbol > 0;
    put(loop.output == clock_output::symbols ? static_cast<float>(symbol)
        : loop.output == clock_output::bits  ? (bit ? 1.0F : 0.0F)
                                             : (bit != (state.last > 0) ? 1.0F : 0.0F));
    state.last = symbol;
    const double off = state.omega + loop.gain_omega * error - loop.omega;
    state.omega = loop.omega + (off > loop.limit ? loop.limit : off < -loop.limit ? -loop.limit : off);
    const double most = state.omega / 2;
    const double shift = loop.gain_mu * error;
    state.mu += state.omega + (shift > most ? most : shift < -most ? -most : shift);
    const double whole = floor(state.mu);
    state.mu -= whole;
    state.step += static_cast<std::int64_t>(whole);
  }
  state.step -= steps;
}

[[nodiscard]] inline double parse_number(const parameters& settings, const char* key, double least, double most,
                                         std::optional<double> absent) {
  const double number = absent ? settings.number(key, *absent) : settings.number(key);
  if (!(number >= least && number <= most)) {
    const auto text = [](double value) {
      std::string written = std::to_string(value);
      written.erase(written.find_last_not_of('0') + 1);
      return written.ends_with('.') ? written.substr(0, written.size() - 1) : written;
    };
    throw parameter_error(key, "must be a number from " + text(least) + " to " + text(most));
  }
  return number;
}

/// Throws parameter_error.
[[nodiscard]] inline clock_settings parse_clock(const parameters& settings, const tensor_spec& input) {
  require_element_type("clock", input, {element_type::f32});
  clock_settings parsed;
  clock_loop& loop = parsed.loop;
  loop.omega = parse_number(settings, "omega", 1.5, 65536.0, std::nullopt);
  loop.detector = static_cast<timing_detector>(parse_choice(settings, "detector", {"mueller-muller", "gardner"}));
  loop.gain_mu = parse_number(settings, "gain_mu", 0.0, 10.0, 0.175);
  loop.gain_omega = parse_number(settings, "gain_omega", 0.0, 10.0, std::min(loop.gain_mu * loop.gain_mu / 4, 10.0));
  const double limit = parse_number(settings, "limit", 0.0, 0.5, 0.005);
  loop.limit = loop.omega * limit;
  loop.mu = parse_number(settings, "mu", 0.0, 1.0, 0.5);
  if (loop.mu == 1.0) {
    throw parameter_error("mu", "must be below 1");
  }
  loop.output = static_cast<clock_output>(parse_choice(settings, "output", {"symbols", "bits", "differential"}));
  const std::int64_t steps = input.shape.front();
  parsed.channels = input.elements() / steps;
  // A symbol may lie two steps before the frame; its cubic begins one before it, that of half a symbol before it too.
  parsed.kept = 4 + static_cast<std::int64_t>(std::ceil((loop.omega + loop.limit) / 2));
  parsed.block =
      3 + static_cast<std::int64_t>(std::floor(2.0 * static_cast<double>(steps) / (loop.omega - loop.limit)));
  parsed.input = input;
  parsed.output = {.type = element_type::f32, .shape = input.shape, .variable = false};
  parsed.output.shape.erase(parsed.output.shape.begin());
  parsed.output.shape.push_back(parsed.block);
  return parsed;
}

[[nodiscard]] inline std::optional<session_traits> clock_session(const parameters& /*settings*/,
                                                                 std::span<const tensor_spec> /*inputs*/) {
  session_traits traits;
  traits.frame_results = true;
  return traits;
}

[[nodiscard]] std::unique_ptr<operation> make_clock_host(const operation_request& request);
[[nodiscard]] std::unique_ptr<operation> make_clock_cuda(const operation_request& request);

}  // namespace penstock

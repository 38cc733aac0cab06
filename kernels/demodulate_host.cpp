#include "kernels/demodulate.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <utility>

namespace penstock {
namespace {

/// arg(re + j·im) within 2e-8 (M. Abramowitz, I. A. Stegun, Handbook of Mathematical Functions, 4.4.49). NaN for a part
/// that is not finite; arg(0) = 0.
[[gnu::always_inline]] inline double angle_of(double re, double im) noexcept {
  const double x = std::abs(re);
  const double y = std::abs(im);
  const double longer = x > y ? x : y;
  const double shorter = x > y ? y : x;
  const double t = shorter / (longer > 0.0 ? longer : 1.0) + 0.0 * (re + im);
  const double s = t * t;
  double series = 0.0028662257;
  series = series * s - 0.0161657367;
  series = series * s + 0.0429096138;
  series = series * s - 0.0752896400;
  series = series * s + 0.1065626393;
  series = series * s - 0.1420889944;
  series = series * s + 0.1999355085;
  series = series * s - 0.3333314528;
  double angle = t + t * s * series;
  angle = y > x ? std::numbers::pi / 2 - angle : angle;
  angle = re < 0.0 ? std::numbers::pi - angle : angle;
  return std::copysign(angle, im);
}

/// Of `count` elements, with those a step before them.
PENSTOCK_VECTOR_CLONES void demodulate_fm(const float* before, const float* now, float gain, float* __restrict out,
                                          std::int64_t count) {
  for (std::int64_t at = 0; at < count; ++at) {
    const auto a = static_cast<double>(now[2 * at]);
    const auto b = static_cast<double>(now[2 * at + 1]);
    const auto c = static_cast<double>(before[2 * at]);
    const auto d = static_cast<double>(before[2 * at + 1]);
    out[at] = gain * static_cast<float>(angle_of(a * c + b * d, b * c - a * d));
  }
}

PENSTOCK_VECTOR_CLONES void demodulate_am(const float* now, float gain, float* __restrict out, std::int64_t count) {
  for (std::int64_t at = 0; at < count; ++at) {
    const auto a = static_cast<double>(now[2 * at]);
    const auto b = static_cast<double>(now[2 * at + 1]);
    out[at] = gain * static_cast<float>(std::sqrt(a * a + b * b));
  }
}

PENSTOCK_VECTOR_CLONES void phases_of(const float* now, double* __restrict out, std::int64_t count) {
  for (std::int64_t at = 0; at < count; ++at) {
    out[at] = angle_of(static_cast<double>(now[2 * at]), static_cast<double>(now[2 * at + 1]));
  }
}

/// Elements whose phases are computed at once.
constexpr std::int64_t phase_block = 1024;

class demodulate_host final : public operation {
 public:
  explicit demodulate_host(demodulate_settings settings) : settings_{std::move(settings)} {}

  [[nodiscard]] std::size_t state_bytes() const noexcept override { return settings_.state_bytes(); }
  /// For pm: the phases of the step before a block of elements and of the block.
  [[nodiscard]] std::size_t scratch_bytes() const noexcept override {
    return settings_.kind == modulation::pm
               ? static_cast<std::size_t>(settings_.channels + phase_block) * sizeof(double)
               : 0;
  }

  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    const batch_extent& extent = arguments.extent;
    const std::int64_t pitch = settings_.input.elements(extent.leading);
    auto* out = static_cast<float*>(arguments.output);
    if (settings_.kind == modulation::am) {
      demodulate_am(static_cast<const float*>(arguments.inputs[0]), settings_.gain, out, extent.frames * pitch);
      return {};
    }
    const session_history<float> history{
        .input = static_cast<const float*>(arguments.inputs[0]),
        .session = arguments.session,
        .pitch = 2 * pitch,
        .channels = 2 * settings_.channels,
        .length = 1,
    };
    for (std::int32_t index = 0; index < extent.frames; ++index, out += pitch) {
      if (settings_.kind == modulation::fm) {
        frequencies(history, index, out);
      } else if (arguments.session.frames[index].previous < 0) {
        unwrap(history, index, static_cast<double*>(arguments.scratch), static_cast<float*>(arguments.output));
      }
    }
    keep_steps(history, extent.frames);
    return {};
  }

 private:
  void frequencies(const session_history<float>& history, std::int32_t index, float* out) const noexcept {
    const std::int64_t channels = settings_.channels;
    const std::int64_t steps = history.session.frames[index].steps;
    const float* const now = history.input + index * history.pitch;
    for (std::int64_t channel = 0; channel < (steps > 0 ? channels : 0); ++channel) {
      const std::array<float, 2> before{history.at(index, -1, 2 * channel), history.at(index, -1, 2 * channel + 1)};
      demodulate_fm(before.data(), now + 2 * channel, settings_.gain, out + channel, 1);
    }
    if (steps > 1) {
      demodulate_fm(now, now + 2 * channels, settings_.gain, out + channels, (steps - 1) * channels);
    }
  }

  /// All frames of a session, whose first is `index`.
  void unwrap(const session_history<float>& history, std::int32_t index, double* phases, float* output) const noexcept {
    const std::int64_t channels = settings_.channels;
    const session_frame& first = history.session.frames[index];
    const std::int64_t* const turns_before =
        demodulate_settings::turns(history.session.half(first.place, first.half), channels);
    std::int64_t* const turns = demodulate_settings::turns(history.session.half(first.place, 1 - first.half), channels);
    for (std::int64_t channel = 0; channel < channels; ++channel) {
      turns[channel] = first.position == 0 ? 0 : turns_before[channel];
      const std::array<float, 2> before{history.at(index, -1, 2 * channel), history.at(index, -1, 2 * channel + 1)};
      phases_of(before.data(), phases + channel, 1);
    }
    for (std::int32_t frame = index; frame >= 0; frame = history.session.frames[frame].next) {
      const std::int64_t count = history.session.frames[frame].steps * channels;
      float* const out = output + frame * (history.pitch / 2);
      std::int64_t channel = 0;
      for (std::int64_t done = 0; done < count; done += phase_block) {
        const std::int64_t elements = std::min(phase_block, count - done);
        phases_of(history.input + frame * history.pitch + 2 * done, phases + channels, elements);
        for (std::int64_t at = 0; at < elements; ++at) {
          const double phase = phases[channels + at];
          turns[channel] += turn_between(phases[at], phase);
          out[done + at] =
              settings_.gain * static_cast<float>(phase + 2.0 * std::numbers::pi * static_cast<double>(turns[channel]));
          channel = channel + 1 == channels ? 0 : channel + 1;
        }
        std::copy_n(phases + elements, channels, phases);
      }
    }
  }

  const demodulate_settings settings_;
};

}  // namespace

std::unique_ptr<operation> make_demodulate_host(const operation_request& request) {
  return std::make_unique<demodulate_host>(parse_demodulate(request.settings, request.inputs[0]));
}

}  // namespace penstock

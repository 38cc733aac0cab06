#include "kernels/clock.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace penstock {
namespace {

class clock_host final : public operation {
 public:
  explicit clock_host(clock_settings settings) : settings_{std::move(settings)} {}

  [[nodiscard]] std::size_t state_bytes() const noexcept override { return settings_.state_bytes(); }

  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    const batch_extent& extent = arguments.extent;
    const session_history<float> history{
        .input = static_cast<const float*>(arguments.inputs[0]),
        .session = arguments.session,
        .pitch = settings_.input.elements(extent.leading),
        .channels = settings_.channels,
        .length = settings_.kept,
    };
    for (std::int32_t index = 0; index < extent.frames; ++index) {
      if (arguments.session.frames[index].previous < 0) {
        for (std::int64_t channel = 0; channel < settings_.channels; ++channel) {
          follow(history, index, channel, static_cast<float*>(arguments.output));
        }
      }
    }
    keep_steps(history, extent.frames);
    return {};
  }

 private:
  /// One channel through all frames of a session, the first of which is `index`.
  void follow(const session_history<float>& history, std::int32_t index, std::int64_t channel,
              float* output) const noexcept {
    const session_frame& first = history.session.frames[index];
    const std::int64_t elements = settings_.kept * settings_.channels;
    clock_state state{.mu = settings_.loop.mu, .omega = settings_.loop.omega};
    if (first.position > 0) {
      state = clock_state::of(history.session.half(first.place, first.half), elements)[channel];
    }
    std::int32_t frame = index;
    while (true) {
      const session_frame& entry = history.session.frames[frame];
      float* const block = output + (frame * settings_.channels + channel) * settings_.block;
      const float* const steps = history.input + frame * history.pitch + channel;
      std::int64_t symbols = 0;
      run_clock(
          settings_.loop, entry.steps, state,
          [&](std::int64_t step) {
            return static_cast<double>(step >= 0 ? steps[step * settings_.channels] : history.at(frame, step, channel));
          },
          [&](float value) { block[++symbols] = value; });
      block[0] = static_cast<float>(symbols);
      std::fill(block + 1 + symbols, block + settings_.block, 0.0F);
      if (entry.next < 0) {
        break;
      }
      frame = entry.next;
    }
    const session_frame& last = history.session.frames[frame];
    clock_state::of(history.session.half(last.place, 1 - last.half), elements)[channel] = state;
  }

  const clock_settings settings_;
};

}  // namespace

std::unique_ptr<operation> make_clock_host(const operation_request& request) {
  return std::make_unique<clock_host>(parse_clock(request.settings, request.inputs[0]));
}

}  // namespace penstock

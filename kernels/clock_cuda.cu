#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "kernels/clock.hpp"
#include "kernels/session.cuh"

namespace penstock {
namespace {

/// What a launch needs to know of the clocks and the batch.
struct clock_shape {
  std::int64_t frames;
  std::int64_t keeps;  ///< blocks of a frame that write the steps that its session keeps
  std::int64_t block;  ///< elements of a channel's output
  clock_loop loop;
};

/// A thread follows one channel of a session through its frames of the batch: each symbol's time depends on the one
/// before it. Rows of the grid take frames in turn.
__global__ void __launch_bounds__(block_threads)
    follow_clocks(session_history<float> history, clock_shape shape, float* __restrict__ output) {
  const std::int64_t channel = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (auto first = static_cast<std::int32_t>(blockIdx.y); first < shape.frames;
       first += static_cast<std::int32_t>(gridDim.y)) {
    if (blockIdx.x < shape.keeps) {
      keep_part(history, first, blockIdx.x, shape.keeps);
    }
    const session_frame& start = history.session.frames[first];
    if (start.previous >= 0 || channel >= history.channels) {
      continue;
    }
    const std::int64_t elements = history.length * history.channels;
    clock_state state{};
    state.mu = shape.loop.mu;
    state.omega = shape.loop.omega;
    if (start.position > 0) {
      state = clock_state::of(history.session.half(start.place, start.half), elements)[channel];
    }
    for (std::int32_t index = first; index >= 0; index = history.session.frames[index].next) {
      const session_frame& frame = history.session.frames[index];
      float* const block = output + (index * history.channels + channel) * shape.block;
      const float* const steps = history.input + index * history.pitch + channel;
      std::int64_t symbols = 0;
      run_clock(
          shape.loop, frame.steps, state,
          [&](std::int64_t step) {
            return static_cast<double>(step >= 0 ? steps[step * history.channels] : history.at(index, step, channel));
          },
          [&](float value) { block[++symbols] = value; });
      block[0] = static_cast<float>(symbols);
      for (std::int64_t rest = symbols + 1; rest < shape.block; ++rest) {
        block[rest] = 0.0F;
      }
      if (frame.next < 0) {
        clock_state::of(history.session.half(frame.place, 1 - frame.half), elements)[channel] = state;
      }
    }
  }
}

class clock_cuda final : public operation {
 public:
  explicit clock_cuda(clock_settings settings) : settings_{std::move(settings)} {}

  [[nodiscard]] std::size_t state_bytes() const noexcept override { return settings_.state_bytes(); }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    const batch_extent& extent = arguments.extent;
    if (extent.frames <= 0) {
      return {};
    }
    const session_history<float> history{
        .input = static_cast<const float*>(arguments.inputs[0]),
        .session = arguments.session,
        .pitch = settings_.input.elements(extent.leading),
        .channels = settings_.channels,
        .length = settings_.kept,
    };
    const int threads = threads_for(settings_.channels);
    const clock_shape shape{
        .frames = extent.frames,
        .keeps = divide_up(history.length * history.channels, static_cast<std::int64_t>(elements_at_once) * threads),
        .block = settings_.block,
        .loop = settings_.loop};
    const std::int64_t columns = std::max(shape.keeps, divide_up(settings_.channels, threads));
    const dim3 grid(static_cast<unsigned>(columns),
                    static_cast<unsigned>(std::min<std::int64_t>(extent.frames, max_grid_rows)));
    return launch(stream, grid, dim3(static_cast<unsigned>(threads)), &follow_clocks, history, shape,
                  static_cast<float*>(arguments.output));
  }

 private:
  const clock_settings settings_;
};

}  // namespace

std::unique_ptr<operation> make_clock_cuda(const operation_request& request) {
  return std::make_unique<clock_cuda>(parse_clock(request.settings, request.inputs[0]));
}

}  // namespace penstock

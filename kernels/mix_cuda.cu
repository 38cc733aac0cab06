#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "kernels/launch.cuh"
#include "kernels/mix.hpp"

namespace penstock {
namespace {

__device__ __forceinline__ float2 mixed(float x, float re, float im) {
  return {re * x, im * x};
}
__device__ __forceinline__ float2 mixed(float2 x, float re, float im) {
  return {re * x.x - im * x.y, re * x.y + im * x.x};
}

/// The oscillator of each frame, with which it ends in the session's state. A thread takes a session through its frames
/// of the batch.
__global__ void __launch_bounds__(block_threads)
    tune_frames(const session_arguments session, std::int64_t frames, const double* __restrict__ frequencies,
                double rate, const oscillator configured, oscillator* __restrict__ tuned) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * block_threads + threadIdx.x;
  if (first >= frames || session.frames[first].previous >= 0) {
    return;
  }
  const session_frame* frame = &session.frames[first];
  oscillator now = configured;
  if (frame->position > 0) {
    now = *reinterpret_cast<const oscillator*>(session.half(frame->place, frame->half));
  }
  double frequency = 0.0;
  cycle_fraction step;  // of that frequency
  for (auto index = static_cast<std::int32_t>(first); index >= 0; index = frame->next) {
    frame = &session.frames[index];
    if (frequencies[index] != frequency) {
      frequency = frequencies[index];
      step = fraction_of(frequency, rate);
    }
    now.retune(step, static_cast<std::uint64_t>(frame->position));
    tuned[index] = now;
  }
  *reinterpret_cast<oscillator*>(session.half(frame->place, 1 - frame->half)) = now;
}

/// Rows of the grid take frames in turn; the blocks of a row take elements. `tuned`: the oscillator of each frame;
/// nullptr: all have the configured one.
template <class In>
__global__ void __launch_bounds__(block_threads)
    mix_elements(const In* __restrict__ input, const session_frame* __restrict__ table, std::int64_t frames,
                 std::int64_t pitch, std::int64_t channels, const oscillator configured,
                 const oscillator* __restrict__ tuned, float2* __restrict__ output) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * block_threads;
  for (std::int64_t index = blockIdx.y; index < frames; index += gridDim.y) {
    const session_frame& frame = table[index];
    const oscillator own = tuned == nullptr ? configured : tuned[index];
    const std::int64_t count = frame.steps * channels;
    for (std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * block_threads + threadIdx.x; at < count;
         at += stride) {
      const std::int64_t n = frame.position + (channels == 1 ? at : at / channels);
      // Half cycles, -1 to 1.
      const float turned =
          __ll2float_rn(static_cast<std::int64_t>(own.phase(static_cast<std::uint64_t>(n)))) * 0x1p-63F;
      float re = 0.0F;
      float im = 0.0F;
      sincospif(turned, &im, &re);
      output[index * pitch + at] = mixed(input[index * pitch + at], re, im);
    }
  }
}

class mix_cuda final : public operation {
 public:
  mix_cuda(mix_settings settings, std::int64_t max_frames, bool is_tuned)
      : settings_{std::move(settings)},
        max_frames_{max_frames},
        is_tuned_{is_tuned},
        multiprocessors_{multiprocessor_count()} {}

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override {
    return is_tuned_ ? static_cast<std::size_t>(max_frames_) * sizeof(oscillator) : 0;
  }
  [[nodiscard]] std::size_t state_bytes() const noexcept override { return mix_settings::state_bytes(is_tuned_); }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    const std::int64_t frames = arguments.extent.frames;
    if (frames <= 0) {
      return {};
    }
    auto* const tuned = is_tuned_ ? static_cast<oscillator*>(arguments.scratch) : nullptr;
    if (is_tuned_) {
      if (const fault failed = launch(stream, dim3(static_cast<unsigned>(divide_up(frames, block_threads))),
                                      dim3(block_threads), &tune_frames, arguments.session, frames, arguments.numbers,
                                      settings_.rate, settings_.tuned, tuned)) {
        return failed;
      }
    }
    return settings_.complex_input ? mix<float2>(stream, arguments, tuned) : mix<float>(stream, arguments, tuned);
  }

 private:
  template <class In>
  fault mix(void* stream, const operation_arguments& arguments, const oscillator* tuned) noexcept {
    const batch_extent& extent = arguments.extent;
    const std::int64_t pitch = settings_.input.elements(extent.leading);
    const std::int64_t rows = std::min<std::int64_t>(extent.frames, max_grid_rows);
    const std::int64_t columns =
        std::clamp<std::int64_t>(divide_up(pitch, block_threads), 1, divide_up(most_blocks(multiprocessors_), rows));
    return launch(stream, dim3(static_cast<unsigned>(columns), static_cast<unsigned>(rows)), dim3(block_threads),
                  &mix_elements<In>, static_cast<const In*>(arguments.inputs[0]), arguments.session.frames,
                  extent.frames, pitch, settings_.channels, settings_.tuned, tuned,
                  static_cast<float2*>(arguments.output));
  }

  const mix_settings settings_;
  const std::int64_t max_frames_;
  const bool is_tuned_;
  const std::int64_t multiprocessors_;
};

}  // namespace

std::unique_ptr<operation> make_mix_cuda(const operation_request& request) {
  return std::make_unique<mix_cuda>(parse_mix(request.settings, request.inputs[0]), request.max_frames, request.tuned);
}

}  // namespace penstock

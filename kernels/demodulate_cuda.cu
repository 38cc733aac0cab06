#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "kernels/demodulate.hpp"
#include "kernels/session.cuh"

namespace penstock {
namespace {

/// arg(re + j·im), NaN for a part that is not finite. The parts are scaled in double, since squares of f32 leave f32's
/// range.
__device__ __forceinline__ float angle_of(double re, double im) {
  const double longer = fmax(fabs(re), fabs(im));
  if (!isfinite(re) || !isfinite(im)) {
    return nanf("");
  }
  if (longer == 0.0) {
    return 0.0F;
  }
  return atan2f(static_cast<float>(im / longer), static_cast<float>(re / longer));
}

/// Times a power of two that brings the longer part between 1 and 4, or near it from below for the smallest numbers.
__device__ __forceinline__ float2 scaled(float2 value) {
  const unsigned exponent = __float_as_uint(fmaxf(fabsf(value.x), fabsf(value.y))) >> 23U;
  const float scale = __uint_as_float((254U - min(exponent, 253U)) << 23U);
  return make_float2(scale * value.x, scale * value.y);
}

/// a·b − c·d within two roundings of its size (W. Kahan's way).
__device__ __forceinline__ float difference_of_products(float a, float b, float c, float d) {
  const float second = c * d;
  return fmaf(a, b, -second) - fmaf(c, d, -second);
}

/// arg(now · conj(before)), NaN where a part of either is not finite.
__device__ __forceinline__ float angle_between(float2 before, float2 now) {
  const float2 z = scaled(now);
  const float2 w = scaled(before);
  const float re = difference_of_products(z.x, w.x, -z.y, w.y);
  const float im = difference_of_products(z.y, w.x, z.x, w.y);
  if (!isfinite(re) || !isfinite(im)) {
    return nanf("");
  }
  return re == 0.0F && im == 0.0F ? 0.0F : atan2f(im, re);
}

/// Elements that a thread has under way at once.
constexpr int angles_at_once = 4;

/// Rows of the grid take frames in turn; the blocks of a row take elements, and the first `keeps` write the state.
__global__ void __launch_bounds__(block_threads)
    demodulate_frequency(session_history<float2> history, std::int64_t frames, std::int64_t keeps, std::int64_t pitch,
                         float gain, float* __restrict__ output) {
  constexpr std::int64_t part = std::int64_t{angles_at_once} * block_threads;
  for (auto index = static_cast<std::int32_t>(blockIdx.y); index < frames;
       index += static_cast<std::int32_t>(gridDim.y)) {
    const std::int64_t count = history.session.frames[index].steps * history.channels;
    const float2* const input = history.input + index * history.pitch;
    for (std::int64_t first = blockIdx.x * part + threadIdx.x; first < count; first += gridDim.x * part) {
      float2 before[angles_at_once];
      float2 now[angles_at_once];
#pragma unroll
      for (int each = 0; each < angles_at_once; ++each) {
        const std::int64_t at = first + each * block_threads;
        if (at < count) {
          now[each] = input[at];
          before[each] = at < history.channels ? history.at(index, -1, at) : input[at - history.channels];
        }
      }
#pragma unroll
      for (int each = 0; each < angles_at_once; ++each) {
        const std::int64_t at = first + each * block_threads;
        if (at < count) {
          output[index * pitch + at] = gain * angle_between(before[each], now[each]);
        }
      }
    }
    if (blockIdx.x < keeps) {
      keep_part(history, index, blockIdx.x, keeps);
    }
  }
}

__global__ void __launch_bounds__(block_threads)
    demodulate_level(const float2* __restrict__ input, std::int64_t count, float gain, float* __restrict__ output) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * block_threads;
  for (std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * block_threads + threadIdx.x; at < count;
       at += stride) {
    const double a = input[at].x;
    const double b = input[at].y;
    output[at] = gain * static_cast<float>(sqrt(a * a + b * b));
  }
}

/// The phase of each step of one channel of a session, through its frames of the batch: the threads of a block take
/// steps side by side, and a scan of their changes gives the turns.
__global__ void __launch_bounds__(block_threads)
    demodulate_phase(session_history<float2> history, std::int64_t frames, std::int64_t pitch, float gain,
                     float* __restrict__ output) {
  __shared__ int warp_turns[block_warps];
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % warp_threads;
  const int warp = thread / warp_threads;
  const std::int64_t channel = blockIdx.x;
  for (auto first = static_cast<std::int32_t>(blockIdx.y); first < frames;
       first += static_cast<std::int32_t>(gridDim.y)) {
    const session_frame& start = history.session.frames[first];
    if (start.previous >= 0) {
      continue;
    }
    std::int64_t turns = start.position == 0 ? 0
                                             : demodulate_settings::turns(history.session.half(start.place, start.half),
                                                                          history.channels)[channel];
    for (std::int32_t index = first; index >= 0; index = history.session.frames[index].next) {
      const session_frame& frame = history.session.frames[index];
      const float2* const input = history.input + index * history.pitch;
      for (std::int64_t done = 0; done < frame.steps; done += block_threads) {
        const std::int64_t step = done + thread;
        float phase = 0.0F;
        int turned = 0;
        if (step < frame.steps) {
          const float2 now = input[step * history.channels + channel];
          const float2 before =
              step == 0 ? history.at(index, -1, channel) : input[(step - 1) * history.channels + channel];
          phase = angle_of(now.x, now.y);
          turned = turn_between(angle_of(before.x, before.y), phase);
        }
        for (int distance = 1; distance < warp_threads; distance *= 2) {
          const int earlier = __shfl_up_sync(~0U, turned, distance);
          turned += lane >= distance ? earlier : 0;
        }
        if (lane == warp_threads - 1) {
          warp_turns[warp] = turned;
        }
        __syncthreads();
        std::int64_t all = turns;
        for (int each = 0; each < block_warps; ++each) {
          turned += each < warp ? warp_turns[each] : 0;
          all += warp_turns[each];
        }
        if (step < frame.steps) {
          const double whole = 6.28318530717958647692 * static_cast<double>(turns + turned);
          output[index * pitch + step * history.channels + channel] =
              gain * static_cast<float>(static_cast<double>(phase) + whole);
        }
        turns = all;
        __syncthreads();
      }
      if (frame.next < 0 && thread == 0) {
        *(history.kept(frame, -1) + channel) = history.at(index, frame.steps - 1, channel);
        demodulate_settings::turns(history.session.half(frame.place, 1 - frame.half), history.channels)[channel] =
            turns;
      }
    }
  }
}

class demodulate_cuda final : public operation {
 public:
  explicit demodulate_cuda(demodulate_settings settings)
      : settings_{std::move(settings)}, multiprocessors_{multiprocessor_count()} {}

  [[nodiscard]] std::size_t state_bytes() const noexcept override { return settings_.state_bytes(); }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    const batch_extent& extent = arguments.extent;
    if (extent.frames <= 0) {
      return {};
    }
    const std::int64_t pitch = settings_.input.elements(extent.leading);
    const auto* const input = static_cast<const float2*>(arguments.inputs[0]);
    auto* const output = static_cast<float*>(arguments.output);
    if (settings_.kind == modulation::am) {
      const std::int64_t count = extent.frames * pitch;
      return launch(stream, grid_of(divide_up(count, block_threads), resident_blocks(multiprocessors_)),
                    dim3(block_threads), &demodulate_level, input, count, settings_.gain, output);
    }
    const session_history<float2> history{
        .input = input, .session = arguments.session, .pitch = pitch, .channels = settings_.channels, .length = 1};
    const std::int64_t rows = std::min<std::int64_t>(extent.frames, max_grid_rows);
    if (settings_.kind == modulation::pm) {
      return launch(stream, dim3(static_cast<unsigned>(settings_.channels), static_cast<unsigned>(rows)),
                    dim3(block_threads), &demodulate_phase, history, extent.frames, pitch, settings_.gain, output);
    }
    const std::int64_t keeps = keep_parts(history.length, history.channels);
    const std::int64_t columns = std::max(keeps, divide_up(pitch, std::int64_t{angles_at_once} * block_threads));
    return launch(stream, dim3(static_cast<unsigned>(columns), static_cast<unsigned>(rows)), dim3(block_threads),
                  &demodulate_frequency, history, extent.frames, keeps, pitch, settings_.gain, output);
  }

  const demodulate_settings settings_;
  const std::int64_t multiprocessors_;
};

}  // namespace

std::unique_ptr<operation> make_demodulate_cuda(const operation_request& request) {
  return std::make_unique<demodulate_cuda>(parse_demodulate(request.settings, request.inputs[0]));
}

}  // namespace penstock

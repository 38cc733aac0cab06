#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "kernels/demodulate.hpp"
#include "kernels/pack.cuh"
#include "kernels/session.cuh"

namespace penstock {
namespace {

/// Neighbouring steps, or elements, that a thread takes.
constexpr int side_by_side = 4;
/// Those of a block.
constexpr std::int64_t block_part = std::int64_t{side_by_side} * block_threads;

/// arg(re + j·im), NaN for a part that is not finite. The longer part is 0 or lies in the middle of f32's range. No
/// branches: two thirds of the instructions of atan2f.
__device__ __forceinline__ float angle_of(float re, float im) {
  const float longer = fmaxf(fmaxf(fabsf(re), fabsf(im)), 1e-30F);
  const float shorter = fminf(fabsf(re), fabsf(im));
  float inverse = 0.0F;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(longer));
  const float estimate = shorter * inverse;
  const float slope = fmaf(fmaf(-estimate, longer, shorter), inverse, estimate);
  // atan(slope) = slope + slope³·p(slope²), within 2e-8 of itself.
  const float square = slope * slope;
  float p = 0.0029206863F;
  p = fmaf(p, square, -0.016367905F);
  p = fmaf(p, square, 0.043211825F);
  p = fmaf(p, square, -0.075522117F);
  p = fmaf(p, square, 0.10666003F);
  p = fmaf(p, square, -0.14211056F);
  p = fmaf(p, square, 0.19993773F);
  p = fmaf(p, square, -0.33333153F);
  float angle = fmaf(p * square, slope, slope);
  angle = fabsf(im) > fabsf(re) ? 1.57079633F - angle : angle;
  angle = re < 0.0F ? 3.14159265F - angle : angle;
  return fmaf(re + im, 0.0F, copysignf(angle, im));  // what is not finite makes 0 a NaN
}

/// Times a power of two that brings the longer part between 1 and 4, or near it from below for the smallest numbers.
__device__ __forceinline__ float2 scaled(float2 value) {
  const unsigned exponent = __float_as_uint(fmaxf(fabsf(value.x), fabsf(value.y))) >> 23U;
  const float scale = __uint_as_float((254U - min(exponent, 253U)) << 23U);
  return make_float2(scale * value.x, scale * value.y);
}

/// The phase of a sample: a function of it alone.
__device__ __forceinline__ float phase_of(float2 sample) {
  const float2 z = scaled(sample);
  return angle_of(z.x, z.y);
}

/// a·b − c·d within two roundings of its size (W. Kahan's way).
__device__ __forceinline__ float difference_of_products(float a, float b, float c, float d) {
  const float second = c * d;
  return fmaf(a, b, -second) - fmaf(c, d, -second);
}

/// arg(z · conj(w)) of scaled samples, NaN where a part of either is not finite.
__device__ __forceinline__ float angle_between(float2 w, float2 z) {
  return angle_of(difference_of_products(z.x, w.x, -z.y, w.y), difference_of_products(z.y, w.x, z.x, w.y));
}

/// Loads samples `stride` apart, as many as `left` says. `wide`: they are neighbours, aligned to 16 bytes, and there is
/// memory for all.
__device__ __forceinline__ void load_samples(const float2* from, std::int64_t stride, std::int64_t left, bool wide,
                                             float2 (&samples)[side_by_side]) {
  if (wide && left > 0) {
    const pack<float2, 2> first = load_pack<2>(from);
    const pack<float2, 2> second = load_pack<2>(from + 2);
    samples[0] = first.at[0];
    samples[1] = first.at[1];
    samples[2] = second.at[0];
    samples[3] = second.at[1];
    return;
  }
#pragma unroll
  for (int each = 0; each < side_by_side; ++each) {
    samples[each] = each < left ? from[each * stride] : make_float2(0.0F, 0.0F);
  }
}

__device__ __forceinline__ void store_angles(float* to, std::int64_t stride, std::int64_t left, bool wide,
                                             const pack<float, side_by_side>& angles) {
  if (wide && left >= side_by_side) {
    store_pack<side_by_side>(to, angles);
    return;
  }
#pragma unroll
  for (int each = 0; each < side_by_side; ++each) {
    if (each < left) {
      to[each * stride] = angles.at[each];
    }
  }
}

/// Frames of one channel begin, and lie, so that wide words do.
[[nodiscard]] __device__ __forceinline__ bool is_wide(const session_history<float2>& history) {
  return history.channels == 1 && history.pitch % side_by_side == 0;
}

/// Rows of the grid take frames in turn; the blocks of a row take elements, and the first `keeps` write the state. Of
/// one channel a lane has the step before its own from its neighbour.
template <bool OneChannel>
__global__ void __launch_bounds__(block_threads, 5)
    demodulate_frequency(session_history<float2> history, std::int64_t frames, std::int64_t keeps, float gain,
                         float* __restrict__ output) {
  const bool wide = OneChannel && is_wide(history);
  for (auto index = static_cast<std::int32_t>(blockIdx.y); index < frames;
       index += static_cast<std::int32_t>(gridDim.y)) {
    const std::int64_t count = history.session.frames[index].steps * history.channels;
    const float2* const input = history.input + index * history.pitch;
    for (std::int64_t part = blockIdx.x * block_part; part < history.pitch; part += gridDim.x * block_part) {
      const std::int64_t first = part + std::int64_t{side_by_side} * threadIdx.x;
      const bool is_first_lane = OneChannel && threadIdx.x % warp_threads == 0;
      float2 now[side_by_side];
      float2 before[side_by_side] = {};
      // Nobody waits for the frame's length: what is read behind its end is left.
      load_samples(input + first, 1, history.pitch - first, wide, now);
      if (is_first_lane && first > 0 && first < history.pitch) {
        before[0] = input[first - 1];
      }
      if (part >= count) {
        break;
      }
#pragma unroll
      for (int each = 0; each < side_by_side; ++each) {
        now[each] = scaled(now[each]);
      }
      if constexpr (OneChannel) {
        const float re = __shfl_up_sync(~0U, now[side_by_side - 1].x, 1);
        const float im = __shfl_up_sync(~0U, now[side_by_side - 1].y, 1);
        before[0] = is_first_lane ? scaled(first == 0 ? history.at(index, -1, 0) : before[0]) : make_float2(re, im);
#pragma unroll
        for (int each = 1; each < side_by_side; ++each) {
          before[each] = now[each - 1];
        }
      } else {
#pragma unroll
        for (int each = 0; each < side_by_side; ++each) {
          const std::int64_t at = first + each;
          if (at < count) {
            before[each] = scaled(at < history.channels ? history.at(index, -1, at) : input[at - history.channels]);
          }
        }
      }
      pack<float, side_by_side> angles;
#pragma unroll
      for (int each = 0; each < side_by_side; ++each) {
        angles.at[each] = gain * angle_between(before[each], now[each]);
      }
      store_angles(output + index * history.pitch + first, 1, count - first, wide, angles);
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

/// phase + 2π·turns, rounded about once: in single precision where that holds all turns.
__device__ __forceinline__ float unwrapped(float phase, std::int64_t turns, bool few) {
  if (few) {
    const auto whole = static_cast<float>(static_cast<int>(turns));
    return fmaf(whole, 6.28318548F, fmaf(whole, -1.74845553e-7F, phase));
  }
  return static_cast<float>(static_cast<double>(phase) + 6.28318530717958647692 * static_cast<double>(turns));
}

/// The phase of each step of one channel of a session, through its frames of the batch: the threads of a block take
/// neighbouring steps, and a scan of their changes gives the turns.
__global__ void __launch_bounds__(block_threads, 6)
    demodulate_phase(session_history<float2> history, std::int64_t frames, float gain, float* __restrict__ output) {
  // Of each warp: the turns between its steps, and its phases at both ends.
  __shared__ int turns_within[block_warps];
  __shared__ float first_phases[block_warps];
  __shared__ float last_phases[block_warps];
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % warp_threads;
  const int warp = thread / warp_threads;
  const std::int64_t channel = blockIdx.x;
  const bool wide = is_wide(history);
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
      const std::int64_t base = index * history.pitch + channel;
      float last_phase = 0.0F;
      for (std::int64_t done = 0; done < frame.steps; done += block_part) {
        const std::int64_t step = done + std::int64_t{side_by_side} * thread;
        const std::int64_t left = frame.steps - step;
        float2 samples[side_by_side];
        load_samples(history.input + base + step * history.channels, history.channels, left, wide, samples);
        float phases[side_by_side];
#pragma unroll
        for (int each = 0; each < side_by_side; ++each) {
          phases[each] = phase_of(samples[each]);
        }
        float before = __shfl_up_sync(~0U, phases[side_by_side - 1], 1);
        if (thread == 0) {
          before = done == 0 ? phase_of(history.at(index, -1, channel)) : last_phase;
        } else if (lane == 0) {
          before = phases[0];  // the turn from the warp before is added below
        }
        int turned[side_by_side];
        int through = 0;
#pragma unroll
        for (int each = 0; each < side_by_side; ++each) {
          through += each < left ? turn_between(before, phases[each]) : 0;
          turned[each] = through;
          before = phases[each];
        }
        const int own = through;
#pragma unroll
        for (int distance = 1; distance < warp_threads; distance *= 2) {
          const int earlier = __shfl_up_sync(~0U, through, distance);
          through += lane >= distance ? earlier : 0;
        }
        if (lane == 0) {
          first_phases[warp] = left > 0 ? phases[0] : nanf("");  // from and to NaN is no turn
        }
        if (lane == warp_threads - 1) {
          turns_within[warp] = through;
          last_phases[warp] = phases[side_by_side - 1];
        }
        __syncthreads();
        // Each lane sees to one of the warps.
        const int other = lane % block_warps;
        const int within = turns_within[other];
        int end = within + (other == 0 ? 0 : turn_between(last_phases[other - 1], first_phases[other]));
#pragma unroll
        for (int distance = 1; distance < block_warps; distance *= 2) {
          const int earlier = __shfl_up_sync(~0U, end, distance, block_warps);
          end += other >= distance ? earlier : 0;
        }
        const std::int64_t until = turns + __shfl_sync(~0U, end - within, warp) + through - own;
        const std::int64_t all = turns + __shfl_sync(~0U, end, block_warps - 1);
        last_phase = last_phases[block_warps - 1];
        // A block adds fewer than these to the turns before it.
        constexpr std::int64_t exact = (std::int64_t{1} << 24) - 2 * block_part;
        const bool few = turns > -exact && turns < exact;
        pack<float, side_by_side> angles;
#pragma unroll
        for (int each = 0; each < side_by_side; ++each) {
          angles.at[each] = gain * unwrapped(phases[each], until + turned[each], few);
        }
        store_angles(output + base + step * history.channels, history.channels, left, wide, angles);
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
      return launch(stream, grid_of(divide_up(count, block_threads), most_blocks(multiprocessors_)),
                    dim3(block_threads), &demodulate_level, input, count, settings_.gain, output);
    }
    const session_history<float2> history{
        .input = input, .session = arguments.session, .pitch = pitch, .channels = settings_.channels, .length = 1};
    const std::int64_t rows = std::min<std::int64_t>(extent.frames, max_grid_rows);
    if (settings_.kind == modulation::pm) {
      return launch(stream, dim3(static_cast<unsigned>(settings_.channels), static_cast<unsigned>(rows)),
                    dim3(block_threads), &demodulate_phase, history, extent.frames, settings_.gain, output);
    }
    const std::int64_t keeps = keep_parts(history.length, history.channels);
    const std::int64_t columns = std::max(keeps, divide_up(pitch, block_part));
    return launch(stream, dim3(static_cast<unsigned>(columns), static_cast<unsigned>(rows)), dim3(block_threads),
                  settings_.channels == 1 ? &demodulate_frequency<true> : &demodulate_frequency<false>, history,
                  extent.frames, keeps, settings_.gain, output);
  }

  const demodulate_settings settings_;
  const std::int64_t multiprocessors_;
};

}  // namespace

std::unique_ptr<operation> make_demodulate_cuda(const operation_request& request) {
  return std::make_unique<demodulate_cuda>(parse_demodulate(request.settings, request.inputs[0]));
}

}  // namespace penstock

#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/launch.cuh"
#include "kernels/pack.cuh"

namespace penstock {

/// output[i] = function(input[i], i % Width). Threads take packs of `Width` elements, and the last `count % Width`
/// elements one by one. `function` is copied to the device.
template <int Width, class In, class Out, class Function>
__global__ void __launch_bounds__(block_threads)
    map_elements(const In* __restrict__ input, Out* __restrict__ output, std::int64_t count, Function function) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * block_threads;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * block_threads + threadIdx.x;
  const std::int64_t packs = count / Width;
#pragma unroll 2
  for (std::int64_t index = first; index < packs; index += stride) {
    const pack<In, Width> in = load_pack<Width>(input + index * Width);
    pack<Out, Width> out;
#pragma unroll
    for (int component = 0; component < Width; ++component) {
      out.at[component] = function(in.at[component], component);
    }
    store_pack<Width>(output + index * Width, out);
  }
  if (packs * Width + first < count) {
    output[packs * Width + first] = function(input[packs * Width + first], static_cast<int>(first));
  }
}

/// Enqueues map_elements over `count` elements. Input and output are aligned to 16 bytes and don't overlap.
template <int Width, class In, class Out, class Function>
fault enqueue_map(void* stream, std::int64_t multiprocessors, const In* input, Out* output, std::int64_t count,
                  Function function) noexcept {
  if (count <= 0) {
    return {};
  }
  const std::int64_t blocks = divide_up(divide_up(count, Width), block_threads);
  return launch(stream, grid_of(blocks, most_blocks(multiprocessors)), dim3(block_threads),
                &map_elements<Width, In, Out, Function>, input, output, count, function);
}

/// output[i] = function(input[i], i % 2) in each of `frames` frames, with function = make(frame). `make` is copied to
/// the device.
template <int Width, class In, class Out, class Make>
__global__ void __launch_bounds__(block_threads)
    map_frames(const In* __restrict__ input, Out* __restrict__ output, std::int64_t frames, std::int64_t frame_elements,
               Make make) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * block_threads;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * block_threads + threadIdx.x;
  const std::int64_t packs = frame_elements / Width;
  for (std::int64_t frame = blockIdx.y; frame < frames; frame += gridDim.y) {
    const auto function = make(frame);
    const std::int64_t begin = frame * frame_elements;
    for (std::int64_t index = first; index < packs; index += stride) {
      const pack<In, Width> in = load_pack<Width>(input + begin + index * Width);
      pack<Out, Width> out;
#pragma unroll
      for (int component = 0; component < Width; ++component) {
        out.at[component] = function(in.at[component], static_cast<int>((index * Width + component) % 2));
      }
      store_pack<Width>(output + begin + index * Width, out);
    }
  }
}

/// Enqueues map_frames. Input and output are aligned to 16 bytes and don't overlap.
template <int Width, class In, class Out, class Make>
fault enqueue_map_frames(void* stream, std::int64_t multiprocessors, const In* input, Out* output, std::int64_t frames,
                         std::int64_t frame_elements, Make make) noexcept {
  if (frames <= 0 || frame_elements <= 0) {
    return {};
  }
  constexpr std::int64_t most_rows = 65535;
  const auto enqueue = [&](auto kernel, std::int64_t width) {
    const std::int64_t rows = std::min(frames, most_rows);
    const std::int64_t blocks = divide_up(frame_elements / width, block_threads);
    const std::int64_t most = std::max<std::int64_t>(1, divide_up(most_blocks(multiprocessors), rows));
    dim3 grid = grid_of(blocks, most);
    grid.y = static_cast<unsigned>(rows);
    return launch(stream, grid, dim3(block_threads), kernel, input, output, frames, frame_elements, make);
  };
  return frame_elements % Width == 0 ? enqueue(&map_frames<Width, In, Out, Make>, Width)
                                     : enqueue(&map_frames<1, In, Out, Make>, 1);
}

}  // namespace penstock

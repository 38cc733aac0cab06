#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "kernels/convert.hpp"
#include "kernels/elementwise.cuh"

namespace penstock {
namespace {

/// (x - offset) / divisor, correctly rounded: the estimate by the reciprocal is corrected by its own remainder. (Proven
/// for all 256 values of u8; the other divisors are powers of two, where the estimate is exact already.)
struct to_value {
  float offset;
  float divisor;
  float reciprocal;

  template <class Sample>
  __device__ __forceinline__ float operator()(Sample sample) const {
    if constexpr (std::is_same_v<Sample, float>) {
      return sample;
    } else {
      const float difference = static_cast<float>(sample) - offset;
      const float estimate = difference * reciprocal;
      return fmaf(fmaf(-estimate, divisor, difference), reciprocal, estimate);
    }
  }
};

/// One input sample to one output element: real to f32, or to cf32 without imaginary part; complex to cf32.
template <class Out>
struct to_element {
  to_value value;

  template <class Sample>
  __device__ __forceinline__ Out operator()(Sample sample, int /*component*/ = 0) const {
    if constexpr (std::is_same_v<Out, float>) {
      return value(sample);
    } else {
      return make_float2(value(sample), 0.0F);
    }
  }
  __device__ __forceinline__ float2 operator()(uchar2 z, int /*component*/ = 0) const {
    return make_float2(value(z.x), value(z.y));
  }
  __device__ __forceinline__ float2 operator()(char2 z, int /*component*/ = 0) const {
    return make_float2(value(z.x), value(z.y));
  }
  __device__ __forceinline__ float2 operator()(short2 z, int /*component*/ = 0) const {
    return make_float2(value(z.x), value(z.y));
  }
  __device__ __forceinline__ float2 operator()(float2 z, int /*component*/ = 0) const { return z; }
};

/// How [samples, channels] is cut into tiles. A tile holds tile_samples × tile_channels elements, at most
/// tile_elements. Its rows have an odd length in shared memory, to avoid bank conflicts when a column is read.
struct planar_shape {
  std::int64_t samples;
  std::int64_t channels;
  int tile_samples;  ///< a power of two
  int tile_channels;
  std::int64_t tiles_along_samples;
  std::int64_t tiles_along_channels;
  std::int64_t tiles;  ///< of all frames
};

constexpr int tile_elements = 2048;
constexpr int max_tile_channels = 32;
/// Two channels are padded to three, the worst case.
constexpr int tile_places = tile_elements / 2 * 3;

planar_shape shape_of(std::int64_t samples, std::int64_t channels, std::int64_t frames) noexcept {
  planar_shape shape{samples, channels, tile_elements, 1, 0, 0, 0};
  shape.tile_channels = static_cast<int>(std::min<std::int64_t>(channels, max_tile_channels));
  while (shape.tile_samples * shape.tile_channels > tile_elements) {
    shape.tile_samples /= 2;
  }
  shape.tiles_along_samples = divide_up(samples, shape.tile_samples);
  shape.tiles_along_channels = divide_up(channels, shape.tile_channels);
  shape.tiles = frames * shape.tiles_along_samples * shape.tiles_along_channels;
  return shape;
}

/// Where a tile starts. The last ones of a frame may be smaller.
struct tile {
  std::int64_t frame;
  std::int64_t first_sample;
  std::int64_t first_channel;
  int samples;
  int channels;

  __device__ tile(const planar_shape& shape, std::int64_t number) {
    const std::int64_t along_samples = number / shape.tiles_along_channels;
    frame = along_samples / shape.tiles_along_samples;
    first_sample = (along_samples - frame * shape.tiles_along_samples) * shape.tile_samples;
    first_channel = (number - along_samples * shape.tiles_along_channels) * shape.tile_channels;
    samples = static_cast<int>(min(static_cast<std::int64_t>(shape.tile_samples), shape.samples - first_sample));
    channels = static_cast<int>(min(static_cast<std::int64_t>(shape.tile_channels), shape.channels - first_channel));
  }
};

/// Frames of [samples, channels] → [channels, samples], through shared memory, so that both sides are read and written
/// in runs as long as the tile has channels (reading) and samples (writing).
template <class In, class Out>
__global__ void __launch_bounds__(block_threads)
    separate_channels(const In* __restrict__ input, Out* __restrict__ output, planar_shape shape,
                      to_element<Out> function) {
  __shared__ Out places[tile_places];
  for (std::int64_t number = blockIdx.x; number < shape.tiles; number += gridDim.x) {
    const tile here(shape, number);
    const std::int64_t frame_start = here.frame * shape.samples * shape.channels;
    const int pitch = here.channels | 1;
    // Steps of block_threads elements, as (sample, channel) without a division each.
    const int sample_step = block_threads / here.channels;
    const int channel_step = block_threads % here.channels;
    int sample = static_cast<int>(threadIdx.x) / here.channels;
    int channel = static_cast<int>(threadIdx.x) % here.channels;
    while (sample < here.samples) {
      const std::int64_t from = (here.first_sample + sample) * shape.channels + here.first_channel + channel;
      places[sample * pitch + channel] = function(input[frame_start + from]);
      sample += sample_step;
      channel += channel_step;
      if (channel >= here.channels) {
        channel -= here.channels;
        ++sample;
      }
    }
    __syncthreads();
    for (int place = static_cast<int>(threadIdx.x); place < shape.tile_samples * here.channels;
         place += block_threads) {
      const int out_channel = place / shape.tile_samples;
      const int out_sample = place % shape.tile_samples;
      if (out_sample < here.samples) {
        const std::int64_t to = (here.first_channel + out_channel) * shape.samples + here.first_sample + out_sample;
        output[frame_start + to] = places[out_sample * pitch + out_channel];
      }
    }
    __syncthreads();
  }
}

/// Samples of two channels that a thread separates: one load and two stores of up to 16 bytes.
template <class In, class Out>
inline constexpr int pair_width = static_cast<int>(std::min(8 / sizeof(In), 16 / sizeof(Out)));

/// Frames of [samples, 2] → [2, samples]; a multiple of pair_width samples, so that everything is aligned.
template <class In, class Out>
__global__ void __launch_bounds__(block_threads)
    separate_pairs(const In* __restrict__ input, Out* __restrict__ output, std::int64_t samples,
                   std::int64_t blocks_a_frame, std::int64_t blocks, to_element<Out> function) {
  constexpr int width = pair_width<In, Out>;
  for (std::int64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
    const std::int64_t frame = block / blocks_a_frame;
    const std::int64_t sample = ((block - frame * blocks_a_frame) * block_threads + threadIdx.x) * width;
    if (sample >= samples) {
      continue;
    }
    const std::int64_t frame_start = frame * samples * 2;
    const pack<In, 2 * width> in = load_pack<2 * width>(input + frame_start + sample * 2);
    pack<Out, width> first;
    pack<Out, width> second;
#pragma unroll
    for (int each = 0; each < width; ++each) {
      first.at[each] = function(in.at[2 * each]);
      second.at[each] = function(in.at[2 * each + 1]);
    }
    store_pack<width>(output + frame_start + sample, first);
    store_pack<width>(output + frame_start + samples + sample, second);
  }
}

class convert_cuda final : public operation {
 public:
  explicit convert_cuda(convert_settings settings)
      : settings_{std::move(settings)},
        value_{settings_.offset, settings_.divisor, 1.0F / settings_.divisor},
        multiprocessors_{multiprocessor_count()} {}

  [[nodiscard]] bool single_pass() const noexcept override { return true; }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    const bool to_complex = settings_.to == element_type::cf32;
    switch (settings_.from) {
      case element_type::u8:
        return to_complex ? convert<unsigned char, float2>(stream, arguments)
                          : convert<unsigned char, float>(stream, arguments);
      case element_type::i8:
        return to_complex ? convert<signed char, float2>(stream, arguments)
                          : convert<signed char, float>(stream, arguments);
      case element_type::i16:
        return to_complex ? convert<short, float2>(stream, arguments) : convert<short, float>(stream, arguments);
      case element_type::i32:
        return to_complex ? convert<int, float2>(stream, arguments) : convert<int, float>(stream, arguments);
      case element_type::f32:
        return to_complex ? convert<float, float2>(stream, arguments) : convert<float, float>(stream, arguments);
      case element_type::cu8:
        return convert<uchar2, float2>(stream, arguments);
      case element_type::ci8:
        return convert<char2, float2>(stream, arguments);
      case element_type::ci16:
        return convert<short2, float2>(stream, arguments);
      case element_type::cf32:
      case element_type::u16:
      case element_type::i64:
      case element_type::f16:
      case element_type::bf16:
      case element_type::f64:
      case element_type::boolean:
        break;
    }
    return convert<float2, float2>(stream, arguments);
  }

 private:
  template <class In, class Out>
  fault convert(void* stream, const operation_arguments& arguments) noexcept {
    constexpr int width = 16 / sizeof(Out);
    const batch_extent& extent = arguments.extent;
    const auto* const in = static_cast<const In*>(arguments.inputs[0]);
    auto* const out = static_cast<Out*>(arguments.output);
    const to_element<Out> function{value_};
    if (!settings_.planar || settings_.channels == 1) {
      const std::int64_t count = extent.frames * settings_.input.elements(extent.leading);
      return enqueue_map<width>(stream, multiprocessors_, in, out, count, function);
    }
    if (settings_.channels == 2 && settings_.samples % pair_width<In, Out> == 0) {
      return convert_pairs(stream, in, out, extent.frames, function);
    }
    const planar_shape shape = shape_of(settings_.samples, settings_.channels, extent.frames);
    if (shape.tiles <= 0) {
      return {};
    }
    return launch(stream, grid_of(shape.tiles, resident_blocks(multiprocessors_)), dim3(block_threads),
                  &separate_channels<In, Out>, in, out, shape, function);
  }

  template <class In, class Out>
  fault convert_pairs(void* stream, const In* in, Out* out, std::int64_t frames, to_element<Out> function) noexcept {
    const std::int64_t blocks_a_frame = divide_up(settings_.samples / pair_width<In, Out>, block_threads);
    const std::int64_t blocks = frames * blocks_a_frame;
    if (blocks <= 0) {
      return {};
    }
    return launch(stream, grid_of(blocks, resident_blocks(multiprocessors_)), dim3(block_threads),
                  &separate_pairs<In, Out>, in, out, settings_.samples, blocks_a_frame, blocks, function);
  }

  const convert_settings settings_;
  const to_value value_;
  const std::int64_t multiprocessors_;
};

}  // namespace

std::unique_ptr<operation> make_convert_cuda(const operation_request& request) {
  return std::make_unique<convert_cuda>(parse_convert(request.settings, request.inputs[0]));
}

}  // namespace penstock

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <utility>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

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

// Every other pair of types: values are read as numbers of 64 bits, whole ones or real ones, and written as the other
// type. One kernel for all pairs, as the types are the same for all of its threads and memory sets its pace. The
// arithmetic is that of element_values.cpp.

struct bool_byte {
  unsigned char byte;
};

/// From one type of parts to another; offset and divisor as in convert_settings.
struct number_conversion {
  element_type from;
  element_type to;
  double offset;
  double divisor;
};

/// How the values of a batch lie: frames of [samples, channels] become [channels, samples], and a real value gets an
/// imaginary part.
struct value_places {
  std::int64_t values;  ///< of the output
  std::int64_t samples;
  std::int64_t channels;
  int in_parts;
  int out_parts;
};

template <class Integer>
__device__ __forceinline__ void read_number(Integer value, long long& number) {
  number = value;
}
__device__ __forceinline__ void read_number(bool_byte value, long long& number) {
  number = value.byte != 0 ? 1 : 0;
}
__device__ __forceinline__ void read_number(double value, double& number) {
  number = value;
}
__device__ __forceinline__ void read_number(float value, double& number) {
  number = value;
}
__device__ __forceinline__ void read_number(__half value, double& number) {
  number = __half2float(value);
}
__device__ __forceinline__ void read_number(__nv_bfloat16 value, double& number) {
  number = __bfloat162float(value);
}

/// The number cut to the 24 bits of a float, whose last bit is set where bits were lost: rounded to fewer bits, it
/// gives what the number does. It is no denormal, which a GPU takes for zero: the least normal number where bf16
/// rounds up to that, else zero.
__device__ __forceinline__ float to_odd_float(double number) {
  constexpr long long lost = (1LL << 29) - 1;
  constexpr double least = 0x1p-126;
  constexpr double rounds_up = 0x1p-126 - 0x1p-134;
  if (fabs(number) < least) {
    return copysignf(fabs(number) >= rounds_up ? static_cast<float>(least) : 0.0F, static_cast<float>(number));
  }
  const long long bits = __double_as_longlong(number);
  const long long sticky = ((bits & lost) + lost) & (lost + 1);
  return __double2float_rn(__longlong_as_double((bits & ~lost) | sticky));
}

/// The same with the 53 bits of a double.
__device__ __forceinline__ double to_odd_double(long long number) {
  constexpr long long exact = 1LL << 53;
  if (number > -exact && number < exact) {
    return __ll2double_rn(number);
  }
  return __ll2double_rn(number >> 11 | static_cast<long long>((number & 2047) != 0)) * 2048.0;
}

template <class Integer>
__device__ __forceinline__ void write_number(long long number, long long least, long long most, Integer& value) {
  value = static_cast<Integer>(min(max(number, least), most));
}
__device__ __forceinline__ void write_number(long long number, unsigned char& value) {
  write_number(number, 0, 255, value);
}
__device__ __forceinline__ void write_number(long long number, signed char& value) {
  write_number(number, -128, 127, value);
}
__device__ __forceinline__ void write_number(long long number, short& value) {
  write_number(number, -32768, 32767, value);
}
__device__ __forceinline__ void write_number(long long number, unsigned short& value) {
  write_number(number, 0, 65535, value);
}
__device__ __forceinline__ void write_number(long long number, int& value) {
  write_number(number, -2147483648LL, 2147483647LL, value);
}
__device__ __forceinline__ void write_number(long long number, long long& value) {
  value = number;
}
__device__ __forceinline__ void write_number(long long number, bool_byte& value) {
  value.byte = number != 0 ? 1 : 0;
}
__device__ __forceinline__ void write_number(double number, double& value) {
  value = number;
}
__device__ __forceinline__ void write_number(double number, float& value) {
  value = __double2float_rn(number);
}
__device__ __forceinline__ void write_number(double number, __half& value) {
  value = __float2half_rn(to_odd_float(number));
}
__device__ __forceinline__ void write_number(double number, __nv_bfloat16& value) {
  value = __float2bfloat16_rn(to_odd_float(number));
}

/// Elements of a pack of at most 16 bytes.
template <class Type, int Width>
inline constexpr int packed = Width * sizeof(Type) > 16 ? static_cast<int>(16 / sizeof(Type)) : Width;

template <class Type, int Width, class Number>
__device__ __forceinline__ void read_values(const void* from, std::int64_t at, Number (&numbers)[Width]) {
  constexpr int width = packed<Type, Width>;
#pragma unroll
  for (int first = 0; first < Width; first += width) {
    const pack<Type, width> in = load_pack<width>(static_cast<const Type*>(from) + at + first);
#pragma unroll
    for (int each = 0; each < width; ++each) {
      read_number(in.at[each], numbers[first + each]);
    }
  }
}

template <class Type, int Width, class Number>
__device__ __forceinline__ void write_values(const Number (&numbers)[Width], void* to, std::int64_t at) {
  constexpr int width = packed<Type, Width>;
#pragma unroll
  for (int first = 0; first < Width; first += width) {
    pack<Type, width> out;
#pragma unroll
    for (int each = 0; each < width; ++each) {
      write_number(numbers[first + each], out.at[each]);
    }
    store_pack<width>(static_cast<Type*>(to) + at + first, out);
  }
}

/// Whether its numbers are whole: integers and bool.
__device__ __forceinline__ bool has_whole_numbers(element_type type) {
  return type != element_type::f16 && type != element_type::bf16 && type != element_type::f32 &&
         type != element_type::f64;
}

template <int Width>
__device__ __forceinline__ void convert_values(const void* in, std::int64_t in_at, void* out, std::int64_t out_at,
                                               const number_conversion& kind) {
  long long whole[Width] = {};
  double real[Width] = {};
  switch (kind.from) {
    case element_type::u8:
      read_values<unsigned char>(in, in_at, whole);
      break;
    case element_type::i8:
      read_values<signed char>(in, in_at, whole);
      break;
    case element_type::i16:
      read_values<short>(in, in_at, whole);
      break;
    case element_type::u16:
      read_values<unsigned short>(in, in_at, whole);
      break;
    case element_type::i32:
      read_values<int>(in, in_at, whole);
      break;
    case element_type::i64:
      read_values<long long>(in, in_at, whole);
      break;
    case element_type::boolean:
      read_values<bool_byte>(in, in_at, whole);
      break;
    case element_type::f16:
      read_values<__half>(in, in_at, real);
      break;
    case element_type::bf16:
      read_values<__nv_bfloat16>(in, in_at, real);
      break;
    case element_type::f64:
      read_values<double>(in, in_at, real);
      break;
    default:
      read_values<float>(in, in_at, real);
  }
  const bool from_whole = has_whole_numbers(kind.from);
  const bool to_whole = has_whole_numbers(kind.to);
  for (int each = 0; each < Width; ++each) {
    if (from_whole && !to_whole) {
      real[each] = kind.divisor != 1.0 ? __ddiv_rn(__dsub_rn(__ll2double_rn(whole[each]), kind.offset), kind.divisor)
                   : kind.to == element_type::f64 ? __ll2double_rn(whole[each])
                                                  : to_odd_double(whole[each]);
    } else if (!from_whole && kind.to == element_type::boolean) {
      whole[each] = __double_as_longlong(real[each]) << 1 != 0 ? 1 : 0;
    } else if (!from_whole && to_whole) {
      // The conversion saturates.
      const double scaled = __dadd_rn(__dmul_rn(real[each], kind.divisor), kind.offset);
      whole[each] = isnan(scaled) ? 0 : __double2ll_rn(scaled);
    }
  }
  switch (kind.to) {
    case element_type::u8:
      return write_values<unsigned char>(whole, out, out_at);
    case element_type::i8:
      return write_values<signed char>(whole, out, out_at);
    case element_type::i16:
      return write_values<short>(whole, out, out_at);
    case element_type::u16:
      return write_values<unsigned short>(whole, out, out_at);
    case element_type::i32:
      return write_values<int>(whole, out, out_at);
    case element_type::i64:
      return write_values<long long>(whole, out, out_at);
    case element_type::boolean:
      return write_values<bool_byte>(whole, out, out_at);
    case element_type::f16:
      return write_values<__half>(real, out, out_at);
    case element_type::bf16:
      return write_values<__nv_bfloat16>(real, out, out_at);
    case element_type::f64:
      return write_values<double>(real, out, out_at);
    default:
      return write_values<float>(real, out, out_at);
  }
}

constexpr int numbers_at_once = 4;

__global__ void __launch_bounds__(block_threads)
    convert_numbers(const void* __restrict__ input, void* __restrict__ output, std::int64_t count,
                    number_conversion kind) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * block_threads;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * block_threads + threadIdx.x;
  const std::int64_t packs = count / numbers_at_once;
  for (std::int64_t index = first; index < packs; index += stride) {
    convert_values<numbers_at_once>(input, index * numbers_at_once, output, index * numbers_at_once, kind);
  }
  if (const std::int64_t last = packs * numbers_at_once + first; last < count) {
    convert_values<1>(input, last, output, last, kind);
  }
}

/// One value a thread: neighbours of the output lie `channels` apart in the input.
__global__ void __launch_bounds__(block_threads)
    place_numbers(const void* __restrict__ input, void* __restrict__ output, value_places places,
                  number_conversion kind) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * block_threads;
  const std::int64_t frame_elements = places.samples * places.channels;
  for (std::int64_t value = static_cast<std::int64_t>(blockIdx.x) * block_threads + threadIdx.x; value < places.values;
       value += stride) {
    const std::int64_t element = value / places.out_parts;
    const int part = static_cast<int>(value - element * places.out_parts);
    if (part >= places.in_parts) {
      static_cast<float*>(output)[value] = 0.0F;
      continue;
    }
    std::int64_t from = element;
    if (places.channels > 1) {
      const std::int64_t frame = element / frame_elements;
      const std::int64_t place = element - frame * frame_elements;
      const std::int64_t channel = place / places.samples;
      from = frame * frame_elements + (place - channel * places.samples) * places.channels + channel;
    }
    convert_values<1>(input, from * places.in_parts + part, output, value, kind);
  }
}

class convert_cuda final : public operation {
 public:
  explicit convert_cuda(convert_settings settings)
      : settings_{std::move(settings)},
        value_{static_cast<float>(settings_.offset), static_cast<float>(settings_.divisor),
               1.0F / static_cast<float>(settings_.divisor)},
        multiprocessors_{multiprocessor_count()} {}

  [[nodiscard]] bool single_pass() const noexcept override { return true; }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    const bool to_complex = settings_.to == element_type::cf32;
    if (!settings_.is_digitized()) {
      return convert_any(stream, arguments);
    }
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
      default:
        return convert<float2, float2>(stream, arguments);
    }
  }

 private:
  fault convert_any(void* stream, const operation_arguments& arguments) noexcept {
    const batch_extent& extent = arguments.extent;
    const number_conversion kind{part_type(settings_.from), part_type(settings_.to), settings_.offset,
                                 settings_.divisor};
    const bool planar = settings_.planar && settings_.channels > 1;
    const int in_parts = is_complex(settings_.from) ? 2 : 1;
    const int out_parts = is_complex(settings_.to) ? 2 : 1;
    const std::int64_t values = extent.frames * settings_.input.elements(extent.leading) * out_parts;
    if (values <= 0) {
      return {};
    }
    if (!planar && in_parts == out_parts) {
      const std::int64_t blocks = divide_up(divide_up(values, numbers_at_once), block_threads);
      return launch(stream, grid_of(blocks, most_blocks(multiprocessors_)), dim3(block_threads), &convert_numbers,
                    arguments.inputs[0], arguments.output, values, kind);
    }
    const value_places places{values, planar ? settings_.samples : 0, planar ? settings_.channels : 1, in_parts,
                              out_parts};
    return launch(stream, grid_of(divide_up(values, block_threads), most_blocks(multiprocessors_)), dim3(block_threads),
                  &place_numbers, arguments.inputs[0], arguments.output, places, kind);
  }

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
    return launch(stream, grid_of(shape.tiles, most_blocks(multiprocessors_)), dim3(block_threads),
                  &separate_channels<In, Out>, in, out, shape, function);
  }

  template <class In, class Out>
  fault convert_pairs(void* stream, const In* in, Out* out, std::int64_t frames, to_element<Out> function) noexcept {
    const std::int64_t blocks_a_frame = divide_up(settings_.samples / pair_width<In, Out>, block_threads);
    const std::int64_t blocks = frames * blocks_a_frame;
    if (blocks <= 0) {
      return {};
    }
    return launch(stream, grid_of(blocks, most_blocks(multiprocessors_)), dim3(block_threads), &separate_pairs<In, Out>,
                  in, out, settings_.samples, blocks_a_frame, blocks, function);
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

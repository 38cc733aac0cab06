#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "kernels/fourier.hpp"
#include "kernels/launch.cuh"
#include "kernels/row_window.cuh"
#include "kernels/session.cuh"
#include "kernels/stft.hpp"

namespace penstock {
namespace {

/// What of the settings and the batch the kernels need.
struct overlap_shape {
  std::int64_t frames;
  std::int64_t keeps;  ///< blocks of a frame that write the state of its session
  std::int64_t length;
  std::int64_t hop;
  std::int64_t padding;
  std::int64_t channels;
  std::int64_t before;     ///< of an inverse: rows that reach into a later one
  std::int64_t out_pitch;  ///< elements from one frame of the output to the next
};

[[nodiscard]] __device__ __forceinline__ float plus(float sum, float value) {
  return sum + value;
}
[[nodiscard]] __device__ __forceinline__ float2 plus(float2 sum, float2 value) {
  return make_float2(sum.x + value.x, sum.y + value.y);
}

/// A thread weighs one step of a row. Rows of the grid take frames in turn, and the first blocks of a row write the
/// state.
template <class T>
__global__ void __launch_bounds__(block_threads)
    weigh_steps(session_history<T> history, step_rate rate, const float* __restrict__ weights, overlap_shape shape,
                T* __restrict__ rows) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * block_threads;
  for (auto index = static_cast<std::int32_t>(blockIdx.y); index < shape.frames;
       index += static_cast<std::int32_t>(gridDim.y)) {
    const session_frame& frame = history.session.frames[index];
    const T* const input = history.input + index * history.pitch;
    const std::int64_t start = reframe_settings::start_of(rate, shape.length, frame.position) - frame.position;
    const std::int64_t count = frame.produced * shape.channels * shape.length;
    for (std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * block_threads + threadIdx.x; at < count;
         at += stride) {
      const std::int64_t line = at / shape.length;
      const std::int64_t place = at - line * shape.length;
      const std::int64_t row = shape.channels == 1 ? line : line / shape.channels;
      const std::int64_t channel = line - row * shape.channels;
      const std::int64_t step = start + row * shape.hop + place;
      const T value = step >= 0 ? input[step * shape.channels + channel] : history.at(index, step, channel);
      rows[index * shape.out_pitch + at] = weighted(value, weights[place]);
    }
    if (blockIdx.x < shape.keeps) {
      keep_part(history, index, blockIdx.x, shape.keeps);
    }
  }
}

/// A step of the history is a transformed row of all channels. A thread sums one result, the oldest row first.
template <class T>
__global__ void __launch_bounds__(block_threads)
    add_overlaps(session_history<T> history, const float* __restrict__ weights, const float* __restrict__ scale,
                 overlap_shape shape, T* __restrict__ output) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * block_threads;
  for (auto index = static_cast<std::int32_t>(blockIdx.y); index < shape.frames;
       index += static_cast<std::int32_t>(gridDim.y)) {
    const session_frame& frame = history.session.frames[index];
    const T* const input = history.input + index * history.pitch;
    const std::int64_t count = frame.produced * shape.channels;
    // The first result of the frame, counted from its first row.
    const std::int64_t left_out = shape.padding - frame.position * shape.hop;
    const std::int64_t first = left_out > 0 ? left_out : 0;
    for (std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * block_threads + threadIdx.x; at < count;
         at += stride) {
      const std::int64_t result = shape.channels == 1 ? at : at / shape.channels;
      const std::int64_t channel = at - result * shape.channels;
      const std::int64_t row = (first + result) / shape.hop;
      const std::int64_t place = first + result - row * shape.hop;
      const std::int64_t reach = min(frame.position + row, shape.before);
      T sum = {};
      for (std::int64_t back = reach; back >= 0; --back) {
        const std::int64_t within = place + back * shape.hop;
        if (within < shape.length) {
          const std::int64_t step = row - back;
          const std::int64_t column = channel * shape.length + within;
          const T value = step >= 0 ? input[step * history.channels + column] : history.at(index, step, column);
          sum = plus(sum, weighted(value, weights[within]));
        }
      }
      output[index * shape.out_pitch + at] = weighted(sum, scale[reach * shape.hop + place]);
    }
    if (blockIdx.x < shape.keeps) {
      keep_part(history, index, blockIdx.x, shape.keeps);
    }
  }
}

[[nodiscard]] constexpr std::size_t aligned(std::size_t bytes) noexcept {
  return (bytes + 255) / 256 * 256;
}

[[nodiscard]] dim3 grid_for(const overlap_shape& shape) noexcept {
  const std::int64_t columns = std::max({shape.keeps, divide_up(shape.out_pitch, block_threads), std::int64_t{1}});
  return dim3(static_cast<unsigned>(columns), static_cast<unsigned>(std::min(shape.frames, max_grid_rows)));
}

/// Windowed rows lie in the scratch; cuFFT makes the output of them.
template <class T>
class stft_cuda final : public operation {
 public:
  stft_cuda(stft_settings settings, std::int64_t max_frames, std::unique_ptr<operation> transform)
      : settings_{std::move(settings)},
        weights_{std::span<const float>{settings_.window.weights}},
        rows_bytes_{aligned(static_cast<std::size_t>(max_frames) * settings_.rows.bytes())},
        transform_{std::move(transform)} {}

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override {
    return rows_bytes_ + transform_->scratch_bytes();
  }
  [[nodiscard]] std::size_t state_bytes() const noexcept override { return settings_.state_bytes(); }
  [[nodiscard]] std::size_t own_bytes() const noexcept override { return transform_->own_bytes(); }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    const batch_extent& extent = arguments.extent;
    if (extent.frames <= 0) {
      return {};
    }
    const session_history<T> history{
        .input = static_cast<const T*>(arguments.inputs[0]),
        .session = arguments.session,
        .pitch = settings_.input.elements(extent.leading),
        .channels = settings_.channels,
        .length = settings_.frames.kept,
    };
    const step_rate rate = settings_.frames.rate();
    const batch_extent row_extent{.frames = extent.frames, .leading = rate.most(extent.leading)};
    const overlap_shape shape{.frames = extent.frames,
                              .keeps = keep_parts(history.length, history.channels),
                              .length = settings_.window.length,
                              .hop = settings_.window.hop,
                              .padding = settings_.window.padding,
                              .channels = settings_.channels,
                              .before = 0,
                              .out_pitch = settings_.rows.elements(row_extent.leading)};
    if (const fault failed = launch(stream, grid_for(shape), dim3(block_threads), &weigh_steps<T>, history, rate,
                                    weights_.data(), shape, static_cast<T*>(arguments.scratch))) {
      return failed;
    }
    const void* const rows[] = {arguments.scratch};
    operation_arguments of_rows = arguments;
    of_rows.inputs = rows;
    of_rows.scratch = static_cast<std::byte*>(arguments.scratch) + rows_bytes_;
    of_rows.extent = row_extent;
    return transform_->run(stream, of_rows);
  }

 private:
  const stft_settings settings_;
  const device_array<float> weights_;
  const std::size_t rows_bytes_;
  const std::unique_ptr<operation> transform_;
};

/// The other way round. The state is the last rows, transformed.
template <class T>
class istft_cuda final : public operation {
 public:
  istft_cuda(istft_settings settings, std::int64_t max_frames, std::unique_ptr<operation> transform)
      : settings_{std::move(settings)},
        weights_{std::span<const float>{settings_.window.weights}},
        scale_{std::span<const float>{settings_.scale}},
        rows_bytes_{aligned(static_cast<std::size_t>(max_frames) * settings_.rows.bytes())},
        transform_{std::move(transform)} {}

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override {
    return rows_bytes_ + transform_->scratch_bytes();
  }
  [[nodiscard]] std::size_t state_bytes() const noexcept override {
    return session_history<T>::state_bytes(kept(), row_elements());
  }
  [[nodiscard]] std::size_t own_bytes() const noexcept override { return transform_->own_bytes(); }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    const batch_extent& extent = arguments.extent;
    if (extent.frames <= 0) {
      return {};
    }
    operation_arguments of_rows = arguments;
    of_rows.output = arguments.scratch;
    of_rows.scratch = static_cast<std::byte*>(arguments.scratch) + rows_bytes_;
    if (const fault failed = transform_->run(stream, of_rows)) {
      return failed;
    }
    const session_history<T> history{
        .input = static_cast<const T*>(arguments.scratch),
        .session = arguments.session,
        .pitch = settings_.rows.elements(extent.leading),
        .channels = row_elements(),
        .length = kept(),
    };
    const overlap_shape shape{.frames = extent.frames,
                              .keeps = keep_parts(history.length, history.channels),
                              .length = settings_.window.length,
                              .hop = settings_.window.hop,
                              .padding = settings_.window.padding,
                              .channels = settings_.channels,
                              .before = settings_.before,
                              .out_pitch = settings_.output.elements(settings_.rate().most(extent.leading))};
    return launch(stream, grid_for(shape), dim3(block_threads), &add_overlaps<T>, history, weights_.data(),
                  scale_.data(), shape, static_cast<T*>(arguments.output));
  }

 private:
  [[nodiscard]] std::int64_t kept() const noexcept { return std::max<std::int64_t>(settings_.before, 1); }
  [[nodiscard]] std::int64_t row_elements() const noexcept { return settings_.channels * settings_.window.length; }

  const istft_settings settings_;
  const device_array<float> weights_;
  const device_array<float> scale_;
  const std::size_t rows_bytes_;
  const std::unique_ptr<operation> transform_;
};

}  // namespace

std::unique_ptr<operation> make_stft_cuda(const operation_request& request) {
  stft_settings settings = parse_stft(request.settings, request.inputs[0]);
  const std::array rows{settings.rows};
  std::unique_ptr<operation> transform =
      make_fft_cuda({.settings = parameters{}, .inputs = rows, .max_frames = request.max_frames});
  if (is_complex(settings.input.type)) {
    return std::make_unique<stft_cuda<float2>>(std::move(settings), request.max_frames, std::move(transform));
  }
  return std::make_unique<stft_cuda<float>>(std::move(settings), request.max_frames, std::move(transform));
}

std::unique_ptr<operation> make_istft_cuda(const operation_request& request) {
  istft_settings settings = parse_istft(request.settings, request.inputs[0]);
  std::unique_ptr<operation> transform =
      make_ifft_cuda({.settings = inverse_of(settings), .inputs = request.inputs, .max_frames = request.max_frames});
  if (settings.half) {
    return std::make_unique<istft_cuda<float>>(std::move(settings), request.max_frames, std::move(transform));
  }
  return std::make_unique<istft_cuda<float2>>(std::move(settings), request.max_frames, std::move(transform));
}

}  // namespace penstock

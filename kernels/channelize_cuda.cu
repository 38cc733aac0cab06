#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "kernels/channelize.hpp"
#include "kernels/cufft.hpp"
#include "kernels/fir_kernels.cuh"
#include "kernels/session.cuh"

namespace penstock {
namespace {

/// What a launch needs to know of the filter and the batch.
struct channelize_shape {
  std::int64_t frames;
  std::int64_t keeps;  ///< blocks of a frame that write the state of its session
  std::int64_t channels;
  std::int64_t hop;
  std::int64_t taps;
  std::int64_t outputs;  ///< rows of a frame for each input; those after `produced` are left as they are
};

/// The values that are transformed, of each output of each input. cuFFT transforms forward, exp(−2πj…), so a value
/// lies at the negative of its place. Rows of the grid take frames in turn, the blocks of a row take values, and the
/// first of them write the state.
template <class In>
__global__ void __launch_bounds__(block_threads)
    channelize_fold(session_history<In> history, const float* __restrict__ taps, channelize_shape shape,
                    float2* __restrict__ output) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * block_threads;
  for (auto index = static_cast<std::int32_t>(blockIdx.y); index < shape.frames;
       index += static_cast<std::int32_t>(gridDim.y)) {
    const session_frame& frame = history.session.frames[index];
    const In* const input = history.input + index * history.pitch;
    const std::int64_t count = frame.produced * history.channels * shape.channels;
    float2* const rows = output + index * shape.outputs * history.channels * shape.channels;
    for (std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * block_threads + threadIdx.x; at < count;
         at += stride) {
      const std::int64_t row = at / shape.channels;
      const std::int64_t phase = at - row * shape.channels;  // the age of the newest step that it sums
      const std::int64_t out = history.channels == 1 ? row : row / history.channels;
      const std::int64_t channel = row - out * history.channels;
      const channelize_place place = channelize_place_of(frame.position, out, shape.channels, shape.hop);
      fir_value<In, float> sum = {};
      for (std::int64_t tap = phase; tap < shape.taps; tap += shape.channels) {
        const std::int64_t step = place.newest - tap;
        const In x = step >= 0 ? input[step * history.channels + channel] : history.at(index, step, channel);
        add_product(sum, taps[tap], x);
      }
      const std::int64_t to = (2 * shape.channels - place.place - phase) % shape.channels;
      if constexpr (std::is_same_v<In, float2>) {
        rows[row * shape.channels + to] = sum;
      } else {
        rows[row * shape.channels + to] = {sum, 0.0F};
      }
    }
    if (blockIdx.x < shape.keeps) {
      keep_part(history, index, blockIdx.x, shape.keeps);
    }
  }
}

/// A cuFFT plan has a fixed number of rows. There is one for each power of two below the maximum, and one for the
/// maximum. A batch is transformed in place in the output: by the largest plans that fit, one after the other.
std::vector<cufft_plan> make_plans(const channelize_settings& settings, std::int64_t max_rows) {
  const std::shared_ptr<const cufft_library> library = cufft_library::load();
  std::vector<cufft_plan> plans;
  for (std::int64_t rows = 1; rows < max_rows; rows *= 2) {
    plans.emplace_back(library, cufft_plan::kind::complex_to_complex, settings.channels, rows);
  }
  plans.emplace_back(library, cufft_plan::kind::complex_to_complex, settings.channels, max_rows);
  return plans;
}

/// Weighted and folded steps → cuFFT, in place in the output.
class channelize_cuda final : public operation {
 public:
  channelize_cuda(channelize_settings settings, std::int64_t max_frames)
      : settings_{std::move(settings)},
        taps_{std::span<const float>{settings_.taps}},
        plans_{make_plans(settings_, max_frames * settings_.output.shape.front() * settings_.inputs)} {
    for (const cufft_plan& plan : plans_) {
      scratch_bytes_ = std::max(scratch_bytes_, plan.work_bytes());
    }
  }

  [[nodiscard]] std::size_t state_bytes() const noexcept override { return settings_.state_bytes(); }
  [[nodiscard]] std::size_t scratch_bytes() const noexcept override { return scratch_bytes_; }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    if (arguments.extent.frames <= 0) {
      return {};
    }
    const fault failed =
        is_complex(settings_.input.type) ? fold<float2>(stream, arguments) : fold<float>(stream, arguments);
    return failed ? failed : transform(stream, arguments);
  }

 private:
  [[nodiscard]] std::int64_t outputs(const batch_extent& extent) const noexcept {
    return settings_.input.variable ? settings_.rate().most(extent.leading) : settings_.output.shape.front();
  }

  template <class In>
  fault fold(void* stream, const operation_arguments& arguments) noexcept {
    const batch_extent& extent = arguments.extent;
    const session_history<In> history{
        .input = static_cast<const In*>(arguments.inputs[0]),
        .session = arguments.session,
        .pitch = settings_.input.elements(extent.leading),
        .channels = settings_.inputs,
        .length = settings_.kept,
    };
    const channelize_shape shape{.frames = extent.frames,
                                 .keeps = keep_parts(history.length, history.channels),
                                 .channels = settings_.channels,
                                 .hop = settings_.hop,
                                 .taps = settings_.length(),
                                 .outputs = outputs(extent)};
    const std::int64_t values = shape.outputs * settings_.inputs * settings_.channels;
    const std::int64_t columns =
        std::min<std::int64_t>(std::max(shape.keeps, divide_up(values, block_threads)), std::int64_t{1} << 30);
    const dim3 grid(static_cast<unsigned>(columns),
                    static_cast<unsigned>(std::min<std::int64_t>(extent.frames, max_grid_rows)));
    return launch(stream, grid, dim3(block_threads), &channelize_fold<In>, history, taps_.data(), shape,
                  static_cast<float2*>(arguments.output));
  }

  fault transform(void* stream, const operation_arguments& arguments) noexcept {
    std::int64_t left = arguments.extent.frames * outputs(arguments.extent) * settings_.inputs;
    auto* row = static_cast<float2*>(arguments.output);
    for (auto plan = plans_.rbegin(); plan != plans_.rend(); ++plan) {
      for (; left >= plan->rows(); left -= plan->rows(), row += plan->rows() * settings_.channels) {
        if (const fault failed = plan->run(stream, arguments.scratch, row, row)) {
          return failed;
        }
      }
    }
    return {};
  }

  const channelize_settings settings_;
  const device_array<float> taps_;
  const std::vector<cufft_plan> plans_;  ///< by rows, the last holds the most
  /// cuFFT takes no nullptr, even if no plan needs a work area.
  std::size_t scratch_bytes_ = 256;
};

}  // namespace

std::unique_ptr<operation> make_channelize_cuda(const operation_request& request) {
  return std::make_unique<channelize_cuda>(parse_channelize(request.settings, request.inputs[0]), request.max_frames);
}

}  // namespace penstock

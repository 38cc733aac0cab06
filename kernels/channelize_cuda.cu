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
  int channels;
  int hop;
  int taps;
  int across;              ///< threads of a block along the channels, a power of two
  unsigned blocks_across;  ///< blocks along the channels
  std::int64_t outputs;    ///< rows of a frame for each input; those after `produced` are left as they are
};

/// Outputs that a thread sums together.
constexpr int outputs_at_once = 4;

/// The values that are transformed, of each output of each input. cuFFT transforms forward, exp(−2πj…), so a value
/// lies at the negative of its place. A thread takes a phase, the age of the newest step that it sums, of `Together`
/// outputs: of more than one they are M steps apart, so that each step and each tap is read once for all of them. Rows
/// of the grid take frames in turn, the blocks of a row take values, and the first of them write the state.
template <class In, int Together>
__global__ void __launch_bounds__(block_threads)
    channelize_fold(session_history<In> history, const float* __restrict__ taps, channelize_shape shape,
                    float2* __restrict__ output) {
  const unsigned group_block = blockIdx.x / shape.blocks_across;
  const int phase = static_cast<int>(blockIdx.x - group_block * shape.blocks_across) * shape.across +
                    (static_cast<int>(threadIdx.x) & (shape.across - 1));
  const int down = block_threads / shape.across;
  const std::int64_t first_item = static_cast<std::int64_t>(group_block) * down + threadIdx.x / shape.across;
  const std::int64_t item_stride = static_cast<std::int64_t>(gridDim.x / shape.blocks_across) * down;
  const int apart = Together == 1 ? 1 : shape.channels / shape.hop;  // outputs from one to the next of a thread
  const int terms = phase < shape.taps ? (shape.taps - phase - 1) / shape.channels + 1 : 0;
  for (auto index = static_cast<std::int32_t>(blockIdx.y); index < shape.frames;
       index += static_cast<std::int32_t>(gridDim.y)) {
    const session_frame& frame = history.session.frames[index];
    const In* const input = history.input + index * history.pitch;
    const In* const state =
        reinterpret_cast<const In*>(history.session.half(frame.place, frame.half)) + history.length * history.channels;
    const std::int64_t in_state = frame.previous < 0 ? min(frame.position, history.length) : 0;
    const auto past = static_cast<int>(frame.position % shape.hop);
    const auto turned = static_cast<unsigned>((frame.position - past) % shape.channels);
    const std::int64_t groups = divide_up(frame.produced, std::int64_t{Together} * apart) * apart;
    float2* const rows = output + index * shape.outputs * history.channels * shape.channels;
    for (std::int64_t item = first_item; phase < shape.channels && item < groups * history.channels;
         item += item_stride) {
      const std::int64_t group = history.channels == 1 ? item : item / history.channels;
      const std::int64_t channel = item - group * history.channels;
      const std::int64_t lap = apart == 1 ? group : group / apart;
      const std::int64_t first = lap * (Together - 1) * apart + group;  // the first of the outputs
      // Tap k of output n of them meets the step k − (Together − 1 − n) times M before this one.
      std::int64_t step = (first + 1) * shape.hop - 1 - past - phase + (Together - 1) * shape.channels;
      fir_value<In, float> sums[Together] = {};
      float recent[Together] = {};
      const float* tap = taps + phase;
#pragma unroll 4
      for (int term = 0; term < terms + Together - 1; ++term, step -= shape.channels, tap += shape.channels) {
        In x = {};
        if (step >= 0) {
          x = step < frame.steps ? input[step * history.channels + channel] : In{};
        } else if (step >= -in_state) {
          x = state[step * history.channels + channel];
        } else {
          x = history.at(index, step, channel);
        }
#pragma unroll
        for (int each = Together - 1; each > 0; --each) {
          recent[each] = recent[each - 1];
        }
        recent[0] = term < terms ? *tap : 0.0F;
#pragma unroll
        for (int each = 0; each < Together; ++each) {
          // A step that is not of its span may be one that a product with 0 would spread.
          if (static_cast<unsigned>(term - each) < static_cast<unsigned>(terms)) {
            add_product(sums[Together - 1 - each], recent[each], x);
          }
        }
      }
      const unsigned place = (turned + (static_cast<unsigned>(first) + 2U) * static_cast<unsigned>(shape.hop)) %
                             static_cast<unsigned>(shape.channels);
      const int to = static_cast<int>(place) - phase + (static_cast<int>(place) < phase ? shape.channels : 0);
#pragma unroll
      for (int each = 0; each < Together; ++each) {
        const std::int64_t out = first + each * apart;
        if (out < frame.produced) {
          float2* const row = rows + (out * history.channels + channel) * shape.channels;
          if constexpr (std::is_same_v<In, float2>) {
            row[to] = sums[each];
          } else {
            row[to] = {sums[each], 0.0F};
          }
        }
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
    const bool together = settings_.channels % settings_.hop == 0;
    const std::int64_t at_once = together ? outputs_at_once * (settings_.channels / settings_.hop) : 1;
    channelize_shape shape{.frames = extent.frames,
                           .keeps = keep_parts(history.length, history.channels),
                           .channels = static_cast<int>(settings_.channels),
                           .hop = static_cast<int>(settings_.hop),
                           .taps = static_cast<int>(settings_.length()),
                           .across = power_of_two(settings_.channels, block_threads),
                           .blocks_across = 0,
                           .outputs = outputs(extent)};
    shape.blocks_across = static_cast<unsigned>(divide_up(settings_.channels, shape.across));
    const std::int64_t groups = divide_up(shape.outputs, at_once) * (at_once / (together ? outputs_at_once : 1));
    const std::int64_t blocks = std::max(divide_up(groups * settings_.inputs * shape.across, block_threads),
                                         divide_up(shape.keeps, shape.blocks_across));
    const std::int64_t columns =
        shape.blocks_across * std::min<std::int64_t>(blocks, (std::int64_t{1} << 30) / shape.blocks_across);
    const dim3 grid(static_cast<unsigned>(columns),
                    static_cast<unsigned>(std::min<std::int64_t>(extent.frames, max_grid_rows)));
    return launch(stream, grid, dim3(block_threads),
                  together ? &channelize_fold<In, outputs_at_once> : &channelize_fold<In, 1>, history, taps_.data(),
                  shape, static_cast<float2*>(arguments.output));
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

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/fir_kernels.cuh"
#include "kernels/launch.cuh"
#include "kernels/resample.hpp"
#include "kernels/session.cuh"

namespace penstock {
namespace {

/// What a launch needs to know of the filter and the batch.
struct resample_shape {
  std::int64_t frames;
  std::int64_t keeps;  ///< blocks of a frame that write the state of its session
  std::int64_t up;
  std::int64_t down;
  std::int64_t taps;
  std::int64_t out_pitch;  ///< elements from one frame of the output to the next
};

/// Outputs that a thread sums one after the other.
constexpr std::int64_t outputs_in_turn = 4;

/// The taps lie by phase: those of an output side by side, newest step first. A thread sums an output at a time; rows
/// of the grid take frames in turn, and the first blocks of a row write the state.
template <class In, class Tap>
__global__ void __launch_bounds__(block_threads)
    resample_outputs(session_history<In> history, const Tap* __restrict__ taps, resample_shape shape,
                     fir_value<In, Tap>* __restrict__ output) {
  using value = fir_value<In, Tap>;
  using wide = typename fir_sum<value>::wide;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * block_threads;
  const auto phase_room = static_cast<int>(divide_up(shape.taps, shape.up));
  const std::int64_t whole_phases = shape.taps - (phase_room - 1) * shape.up;  // the others have one tap less
  for (auto index = static_cast<std::int32_t>(blockIdx.y); index < shape.frames;
       index += static_cast<std::int32_t>(gridDim.y)) {
    const session_frame& frame = history.session.frames[index];
    const In* const input = history.input + index * history.pitch;
    const std::int64_t count = frame.produced * history.channels;
    const resample_begin begin = resample_begin_of(frame.position, shape.up, shape.down);
    for (std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * block_threads + threadIdx.x; at < count;
         at += stride) {
      const std::int64_t out_step = history.channels == 1 ? at : at / history.channels;
      const std::int64_t channel = at - out_step * history.channels;
      const resample_place place = begin.place(out_step, shape.up, shape.down);
      const int terms = place.phase < whole_phases ? phase_room : phase_room - 1;
      const Tap* const phase_taps = taps + place.phase * phase_room;
      const auto sum = [&](auto step_before) {
        wide total = {};
        for (int term = 0; term < terms;) {
          value partial = {};
          const int end = min(term + static_cast<int>(fir_partial), terms);
#pragma unroll 4
          for (; term < end; ++term) {
            add_product(partial, phase_taps[term], step_before(term));
          }
          widen_into(total, partial);
        }
        return narrow(total);
      };
      const In* const newest = input + place.step * history.channels + channel;
      fir_value<In, Tap>& made = output[index * shape.out_pitch + at];
      if (place.step + 1 < terms) {
        made = sum([&](int term) { return history.at(index, place.step - term, channel); });
      } else if (history.channels == 1) {
        made = sum([&](int term) { return newest[-term]; });
      } else {
        made = sum([&](int term) { return newest[-term * history.channels]; });
      }
    }
    if (blockIdx.x < shape.keeps) {
      keep_part(history, index, blockIdx.x, shape.keeps);
    }
  }
}

template <class Tap>
std::vector<Tap> taps_by_phase(const resample_settings& settings) {
  const auto room = static_cast<std::size_t>(settings.phase_taps());
  const auto up = static_cast<std::size_t>(settings.up);
  std::vector<Tap> taps(room * up);
  for (std::size_t k = 0; k < settings.taps.size(); ++k) {
    Tap& tap = taps[k % up * room + k / up];
    if constexpr (std::is_same_v<Tap, float2>) {
      tap = {settings.taps[k], settings.taps_imag[k]};
    } else {
      tap = settings.taps[k];
    }
  }
  return taps;
}

template <class In, class Tap>
class resample_cuda final : public operation {
 public:
  explicit resample_cuda(resample_settings settings)
      : settings_{std::move(settings)},
        taps_{std::span<const Tap>{taps_by_phase<Tap>(settings_)}},
        multiprocessors_{multiprocessor_count()} {}

  [[nodiscard]] std::size_t state_bytes() const noexcept override { return settings_.state_bytes(); }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    const batch_extent& extent = arguments.extent;
    if (extent.frames <= 0) {
      return {};
    }
    const session_history<In> history{
        .input = static_cast<const In*>(arguments.inputs[0]),
        .session = arguments.session,
        .pitch = settings_.input.elements(extent.leading),
        .channels = settings_.channels,
        .length = settings_.kept,
    };
    const resample_shape shape{.frames = extent.frames,
                               .keeps = keep_parts(history.length, history.channels),
                               .up = settings_.up,
                               .down = settings_.down,
                               .taps = settings_.length(),
                               .out_pitch = settings_.output.elements(settings_.rate().most(extent.leading))};
    // Where there are enough, a thread sums several outputs, which share what is known of the frame.
    const std::int64_t parts = divide_up(shape.out_pitch, block_threads);
    const std::int64_t each =
        std::clamp<std::int64_t>(extent.frames * parts / (most_blocks(multiprocessors_) / 2), 1, outputs_in_turn);
    const std::int64_t columns = std::max(shape.keeps, divide_up(parts, each));
    const dim3 grid(static_cast<unsigned>(columns),
                    static_cast<unsigned>(std::min<std::int64_t>(extent.frames, max_grid_rows)));
    return launch(stream, grid, dim3(block_threads), &resample_outputs<In, Tap>, history, taps_.data(), shape,
                  static_cast<fir_value<In, Tap>*>(arguments.output));
  }

 private:
  const resample_settings settings_;
  const device_array<Tap> taps_;
  const std::int64_t multiprocessors_;
};

}  // namespace

std::unique_ptr<operation> make_resample_cuda(const operation_request& request) {
  resample_settings settings = parse_resample(request.settings, request.inputs[0]);
  const bool complex_input = is_complex(settings.input.type);
  if (settings.complex_taps()) {
    return complex_input
               ? std::unique_ptr<operation>{std::make_unique<resample_cuda<float2, float2>>(std::move(settings))}
               : std::make_unique<resample_cuda<float, float2>>(std::move(settings));
  }
  return complex_input ? std::unique_ptr<operation>{std::make_unique<resample_cuda<float2, float>>(std::move(settings))}
                       : std::make_unique<resample_cuda<float, float>>(std::move(settings));
}

}  // namespace penstock

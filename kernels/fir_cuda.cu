#include <algorithm>
#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/fir.hpp"
#include "kernels/fir_kernels.cuh"
#include "kernels/launch.cuh"

namespace penstock {
namespace {

/// Above this decimation the outputs of a tile share too little input for staging.
constexpr std::int64_t max_staged_decimation = 16;
/// Outputs that a thread of a tile sums, if that still gives every multiprocessor a block.
constexpr int max_outputs_per_thread = 4;

/// The taps, oldest step first.
template <class Tap>
std::vector<Tap> reversed_taps(const fir_settings& settings) {
  std::vector<Tap> taps;
  for (std::size_t k = settings.taps.size(); k > 0; --k) {
    if constexpr (std::is_same_v<Tap, float2>) {
      taps.push_back({settings.taps[k - 1], settings.taps_imag[k - 1]});
    } else {
      taps.push_back(settings.taps[k - 1]);
    }
  }
  return taps;
}

template <class In, class Tap>
class fir_cuda final : public operation {
 public:
  explicit fir_cuda(fir_settings settings)
      : settings_{std::move(settings)},
        multiprocessors_{multiprocessor_count()},
        taps_{std::span<const Tap>{reversed_taps<Tap>(settings_)}} {
    if (settings_.decimation > 1 && settings_.decimation <= max_staged_decimation) {
      // The choice depends on the frames of a batch.
      load_kernel(&fir_by_tile<1, In, Tap>);
      load_kernel(&fir_by_tile<max_outputs_per_thread, In, Tap>);
    }
  }

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
    auto* const output = static_cast<fir_value<In, Tap>*>(arguments.output);
    if (settings_.on_nan != invalid_samples::spread) {
      return run_valid(stream, history, extent, output);
    }
    if (settings_.decimation > max_staged_decimation) {
      return settings_.length() >= 16 * block_threads ? run_team<block_threads>(stream, history, extent, output)
                                                      : run_team<warp_threads>(stream, history, extent, output);
    }
    if (settings_.decimation == 1) {
      return enqueue(stream, split_runs(extent),
                     settings_.channels == 1 ? &fir_by_run<1, In, Tap> : &fir_by_run<0, In, Tap>, history, output);
    }
    const fir_split split = split_tiles(extent, max_outputs_per_thread);
    if (split.frames * split.parts() < multiprocessors_) {
      return enqueue(stream, split_tiles(extent, 1), &fir_by_tile<1, In, Tap>, history, output);
    }
    return enqueue(stream, split, &fir_by_tile<max_outputs_per_thread, In, Tap>, history, output);
  }

 private:
  using kernel = void (*)(session_history<In>, const Tap*, fir_split, fir_value<In, Tap>*);

  fault enqueue(void* stream, const fir_split& split, kernel function, const session_history<In>& history,
                fir_value<In, Tap>* output) noexcept {
    const dim3 grid(static_cast<unsigned>(split.parts()),
                    static_cast<unsigned>(std::min<std::int64_t>(split.frames, max_grid_rows)));
    return launch(stream, grid, dim3(split.threads), function, history, taps_.data(), split, output);
  }

  template <int Team>
  fault run_team(void* stream, const session_history<In>& history, const batch_extent& extent,
                 fir_value<In, Tap>* output) noexcept {
    fir_split split;
    while (split.group < std::min<std::int64_t>(settings_.channels, warp_threads)) {
      split.group *= 2;
    }
    split.outputs = block_threads / Team;
    return enqueue(stream, completed(split, extent), &fir_by_team<Team, In, Tap>, history, output);
  }

  fault run_valid(void* stream, const session_history<In>& history, const batch_extent& extent,
                  fir_value<In, Tap>* output) noexcept {
    const fir_split split = completed({}, extent);
    const std::int64_t elements = std::max(max_steps(extent), std::int64_t{1}) * settings_.channels;
    const dim3 grid(grid_of(divide_up(elements, block_threads), most_blocks(multiprocessors_)).x,
                    static_cast<unsigned>(std::min<std::int64_t>(split.frames, max_grid_rows)));
    return launch(stream, grid, dim3(block_threads), &fir_valid<In, Tap>, history, taps_.data(), split,
                  settings_.on_nan == invalid_samples::reset, output);
  }

  /// Tiles of equal size. If a tile stages all taps at once, it also has the steps of the new state.
  [[nodiscard]] fir_split split_runs(const batch_extent& extent) const noexcept {
    fir_split split;
    split.group = static_cast<int>(std::min<std::int64_t>(settings_.channels, warp_threads));
    const std::int64_t runs = divide_up(max_steps(extent), run_steps);
    const std::int64_t tiles = divide_up(runs, block_threads / split.group);
    split.threads = threads_for(divide_up(runs, tiles) * split.group);
    split.outputs = split.threads / split.group * run_steps;
    const std::int64_t room = run_elements / split.group - split.outputs + 1;
    split.taps_at_once = static_cast<int>(std::min(room / fir_partial * fir_partial, run_taps));
    return completed(split, extent, settings_.length() > split.taps_at_once);
  }

  /// As many outputs as the threads and the staging memory allow.
  [[nodiscard]] fir_split split_tiles(const batch_extent& extent, int outputs_per_thread) const noexcept {
    fir_split split;
    const std::int64_t decimation = settings_.decimation;
    const std::int64_t taps = std::min(settings_.length(), fir_partial);
    const std::int64_t phases = std::min(decimation, taps);
    const std::int64_t past = (taps - 1) / decimation;
    const std::int64_t group = std::min<std::int64_t>(settings_.channels, phases > 4 ? 16 : warp_threads);
    const std::int64_t room = staged_bytes / static_cast<std::int64_t>(sizeof(In)) / (phases * group) - past - 1;
    split.group = static_cast<int>(group);
    split.outputs = static_cast<int>(std::min(outputs_per_thread * block_threads / group, room));
    split.rows = static_cast<int>((split.outputs + past) | 1);
    return completed(split, extent);
  }

  [[nodiscard]] fir_split completed(fir_split split, const batch_extent& extent,
                                    bool keeps_apart = true) const noexcept {
    const std::int64_t steps = max_steps(extent);
    split.decimation = settings_.decimation;
    split.taps = settings_.length();
    split.out_pitch = steps * settings_.channels;
    split.tiles = divide_up(steps, split.outputs);
    split.groups = divide_up(settings_.channels, split.group);
    split.keeps = keeps_apart ? keep_parts(settings_.kept, settings_.channels) : 0;
    split.frames = extent.frames;
    return split;
  }

  /// Maximum output steps of a frame of the batch.
  [[nodiscard]] std::int64_t max_steps(const batch_extent& extent) const noexcept {
    return settings_.input.variable ? settings_.rate().most(extent.leading) : settings_.output.shape.front();
  }

  const fir_settings settings_;
  const std::int64_t multiprocessors_;
  const device_array<Tap> taps_;
};

}  // namespace

std::unique_ptr<operation> make_fir_cuda(const operation_request& request) {
  fir_settings settings = parse_fir(request.settings, request.inputs[0]);
  const bool complex_input = is_complex(settings.input.type);
  if (settings.complex_taps()) {
    return complex_input ? std::unique_ptr<operation>{std::make_unique<fir_cuda<float2, float2>>(std::move(settings))}
                         : std::make_unique<fir_cuda<float, float2>>(std::move(settings));
  }
  return complex_input ? std::unique_ptr<operation>{std::make_unique<fir_cuda<float2, float>>(std::move(settings))}
                       : std::make_unique<fir_cuda<float, float>>(std::move(settings));
}

}  // namespace penstock

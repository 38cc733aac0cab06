#include <algorithm>
#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/device_array.cuh"
#include "kernels/fir.hpp"
#include "kernels/fir_sum.cuh"
#include "kernels/session_state.cuh"

namespace penstock {
namespace {

/// From here on the outputs of a tile would share too little of their input to be worth staging it.
constexpr std::int64_t most_staged_decimation = 16;
constexpr int staged_bytes = 32768;
/// A thread of a tile sums so many outputs, where that still gives every multiprocessor a block.
constexpr int most_outputs_a_thread = 4;

/// What the blocks of a launch need to know of the filter, and how they share a batch: of each frame, `tiles` blocks
/// filter each of `groups` groups of channels, and `keeps` blocks write its session's state.
struct fir_split {
  std::int64_t items = 0;
  std::int64_t tiles = 1;
  std::int64_t groups = 1;
  std::int64_t keeps = 1;
  std::int64_t decimation = 1;
  std::int64_t taps = 1;
  std::int64_t out_pitch = 0;  ///< elements from one frame of the output to the next
  int group = 1;               ///< channels of a group; the last may have fewer
  int outputs = 1;             ///< steps of a tile
  int rows = 1;                ///< of a phase, see fir_by_tile
};

/// What one block does for one frame.
struct fir_item {
  std::int32_t frame;
  std::int64_t first_output;  ///< of the frame's
  std::int64_t channel;       ///< the first of the group
  std::int64_t keep;          ///< the part of the state to be written, −1: none
};

__device__ __forceinline__ fir_item item_of(const fir_split& split, std::int64_t item) {
  const std::int64_t filters = split.tiles * split.groups;
  const std::int64_t of_frame = filters + split.keeps;
  const auto frame = static_cast<std::int32_t>(item / of_frame);
  const std::int64_t part = item - frame * of_frame;
  const std::int64_t tile = part / split.groups;
  return {frame, tile * split.outputs, (part - tile * split.groups) * split.group,
          part < filters ? std::int64_t{-1} : part - filters};
}

/// For small decimations. A tile of outputs stages the input steps that it needs for `fir_partial` taps at a time, in
/// phases: staged step t is row t / D of phase t mod D. The step that goes with output m and the r-th of these taps
/// (the oldest first) is t = D·m + r, row m + r / D of phase r mod D: neighbouring threads, which have neighbouring
/// outputs or channels, read neighbouring words, whatever D is. `rows` is odd, so that neighbouring phases are in
/// different banks.
template <int OutputsAThread, class In, class Tap>
__global__ void __launch_bounds__(block_threads) fir_by_tile(session_history<In> history, const Tap* __restrict__ taps,
                                                             fir_split split, fir_value<In, Tap>* __restrict__ output) {
  using value = fir_value<In, Tap>;
  __shared__ In staged[staged_bytes / sizeof(In)];
  __shared__ Tap staged_taps[fir_partial];
  const int thread = static_cast<int>(threadIdx.x);
  const int decimation = static_cast<int>(split.decimation);
  for (std::int64_t index = blockIdx.x; index < split.items; index += gridDim.x) {
    const fir_item item = item_of(split, index);
    if (item.keep >= 0) {
      keep_part(history, item.frame, item.keep, split.keeps);
      continue;
    }
    const session_frame& frame = history.session.frames[item.frame];
    if (item.first_output >= frame.produced) {
      continue;
    }
    const int outputs =
        static_cast<int>(min(static_cast<std::int64_t>(split.outputs), frame.produced - item.first_output));
    const int group = static_cast<int>(min(static_cast<std::int64_t>(split.group), history.channels - item.channel));
    const std::int64_t oldest =
        first_kept_step(frame.position, split.decimation) + split.decimation * item.first_output - (split.taps - 1);
    int lanes[OutputsAThread];
    typename fir_sum<value>::wide total[OutputsAThread] = {};
#pragma unroll
    for (int each = 0; each < OutputsAThread; ++each) {
      const int lane = thread + each * block_threads;
      lanes[each] = lane < outputs * group ? lane : 0;
    }
    for (std::int64_t first_tap = 0; first_tap < split.taps; first_tap += fir_partial) {
      const int count = static_cast<int>(min(fir_partial, split.taps - first_tap));
      const int phases = min(decimation, count);
      const int steps = decimation * (outputs - 1) + count;
      const int words = (outputs + (count - 1) / decimation) * phases * group;
      __syncthreads();
      for (int word = thread; word < words; word += block_threads) {
        const int channel = word % group;
        const int row = word / group / phases;
        const int phase = word / group % phases;
        const int step = row * decimation + phase;
        if (step < steps) {
          staged[(phase * split.rows + row) * group + channel] =
              history.at(item.frame, oldest + first_tap + step, item.channel + channel);
        }
      }
      if (thread < count) {
        staged_taps[thread] = taps[first_tap + thread];
      }
      __syncthreads();
      value partial[OutputsAThread] = {};
      for (int phase = 0; phase < phases; ++phase) {
        const In* row = staged + phase * split.rows * group;
#pragma unroll 4
        for (int tap = phase; tap < count; tap += decimation, row += group) {
          const Tap weight = staged_taps[tap];
#pragma unroll
          for (int each = 0; each < OutputsAThread; ++each) {
            add_product(partial[each], weight, row[lanes[each]]);
          }
        }
      }
#pragma unroll
      for (int each = 0; each < OutputsAThread; ++each) {
        widen_into(total[each], partial[each]);
      }
    }
#pragma unroll
    for (int each = 0; each < OutputsAThread; ++each) {
      const int lane = thread + each * block_threads;
      if (lane < outputs * group) {
        const std::int64_t step = item.first_output + lane / group;
        output[item.frame * split.out_pitch + step * history.channels + item.channel + lane % group] =
            narrow(total[each]);
      }
    }
  }
}

/// For large decimations, a team of threads for each step of the output: a warp, or the whole block where there are
/// many taps. The team's threads share the taps, and within a tap they are next to each other along the channels
/// (`group`, a power of two of at most a warp) or, with one channel, along the input.
template <int Team, class In, class Tap>
__global__ void __launch_bounds__(block_threads) fir_by_team(session_history<In> history, const Tap* __restrict__ taps,
                                                             fir_split split, fir_value<In, Tap>* __restrict__ output) {
  using value = fir_value<In, Tap>;
  using wide = typename fir_sum<value>::wide;
  static_assert(Team >= warp_threads && block_threads % Team == 0);
  __shared__ wide of_warps[block_warps][warp_threads];
  const int thread = static_cast<int>(threadIdx.x) % Team;
  const int team = static_cast<int>(threadIdx.x) / Team;
  const int lane_of_warp = thread % warp_threads;
  for (std::int64_t index = blockIdx.x; index < split.items; index += gridDim.x) {
    const fir_item item = item_of(split, index);
    if (item.keep >= 0) {
      keep_part(history, item.frame, item.keep, split.keeps);
      continue;
    }
    const session_frame& frame = history.session.frames[item.frame];
    const std::int64_t step = item.first_output + team;
    const std::int64_t channel = item.channel + thread % split.group;
    const bool wanted = step < frame.produced && channel < history.channels;
    const std::int64_t oldest =
        first_kept_step(frame.position, split.decimation) + split.decimation * step - (split.taps - 1);
    const std::int64_t stride = Team / split.group;
    wide total = {};
    std::int64_t tap = wanted ? thread / split.group : split.taps;
    while (tap < split.taps) {
      value partial = {};
      const std::int64_t end = min(tap + stride * fir_partial, split.taps);
#pragma unroll 4
      for (; tap < end; tap += stride) {
        add_product(partial, taps[tap], history.at(item.frame, oldest + tap, channel));
      }
      widen_into(total, partial);
    }
    for (int distance = split.group; distance < warp_threads; distance *= 2) {
      add_lane(total, distance);
    }
    if (Team > warp_threads) {
      __syncthreads();
      of_warps[thread / warp_threads][lane_of_warp] = total;
      __syncthreads();
      total = {};
      for (int warp = 0; warp < Team / warp_threads; ++warp) {
        add(total, of_warps[warp][lane_of_warp]);
      }
    }
    if (wanted && thread < split.group) {
      output[item.frame * split.out_pitch + step * history.channels + channel] = narrow(total);
    }
  }
}

/// The taps as the kernels take them: the oldest step's first.
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
        taps_{std::span<const Tap>{reversed_taps<Tap>(settings_)}} {}

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
    if (settings_.decimation > most_staged_decimation) {
      return settings_.length() >= 16 * block_threads ? by_team<block_threads>(stream, history, extent, output)
                                                      : by_team<warp_threads>(stream, history, extent, output);
    }
    const fir_split split = split_tiles(extent, most_outputs_a_thread);
    if (split.items < multiprocessors_) {
      return enqueue(stream, split_tiles(extent, 1), &fir_by_tile<1, In, Tap>, history, output);
    }
    return enqueue(stream, split, &fir_by_tile<most_outputs_a_thread, In, Tap>, history, output);
  }

 private:
  using kernel = void (*)(session_history<In>, const Tap*, fir_split, fir_value<In, Tap>*);

  fault enqueue(void* stream, const fir_split& split, kernel what, const session_history<In>& history,
                fir_value<In, Tap>* output) noexcept {
    return launch(stream, grid_of(split.items, resident_blocks(multiprocessors_)), dim3(block_threads), what, history,
                  taps_.data(), split, output);
  }

  template <int Team>
  fault by_team(void* stream, const session_history<In>& history, const batch_extent& extent,
                fir_value<In, Tap>* output) noexcept {
    fir_split split;
    while (split.group < std::min<std::int64_t>(settings_.channels, warp_threads)) {
      split.group *= 2;
    }
    split.outputs = block_threads / Team;
    return enqueue(stream, completed(split, extent), &fir_by_team<Team, In, Tap>, history, output);
  }

  /// As many outputs as the threads take and the staging has room for.
  [[nodiscard]] fir_split split_tiles(const batch_extent& extent, int outputs_a_thread) const noexcept {
    fir_split split;
    const std::int64_t decimation = settings_.decimation;
    const std::int64_t taps = std::min(settings_.length(), fir_partial);
    const std::int64_t phases = std::min(decimation, taps);
    const std::int64_t past = (taps - 1) / decimation;
    const std::int64_t group = std::min<std::int64_t>(settings_.channels, phases > 4 ? 16 : warp_threads);
    const std::int64_t room = staged_bytes / static_cast<std::int64_t>(sizeof(In)) / (phases * group) - past - 1;
    split.group = static_cast<int>(group);
    split.outputs = static_cast<int>(std::min(outputs_a_thread * block_threads / group, room));
    split.rows = static_cast<int>((split.outputs + past) | 1);
    return completed(split, extent);
  }

  [[nodiscard]] fir_split completed(fir_split split, const batch_extent& extent) const noexcept {
    const std::int64_t steps =
        settings_.input.variable ? settings_.rate().most(extent.leading) : settings_.output.shape.front();
    split.decimation = settings_.decimation;
    split.taps = settings_.length();
    split.out_pitch = steps * settings_.channels;
    split.tiles = divide_up(steps, split.outputs);
    split.groups = divide_up(settings_.channels, split.group);
    split.keeps = keep_parts(settings_.kept, settings_.channels);
    split.items = extent.frames * (split.tiles * split.groups + split.keeps);
    return split;
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

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "kernels/iir.hpp"
#include "kernels/iir_kernels.cuh"
#include "kernels/launch.cuh"

namespace penstock {
namespace {

/// Minimum chunks of a frame to be worth three launches.
constexpr std::int64_t min_chunks = 4;
/// Powers of the map of the cascade; a frame has fewer than 2^31 steps.
constexpr int chunk_powers = 31;

state_map followed_by(const state_map& first, const state_map& second) {
  state_map both{};
  for (int row = 0; row < 2; ++row) {
    for (int column = 0; column < 2; ++column) {
      both.at[row][column] = second.at[row][0] * first.at[0][column] + second.at[row][1] * first.at[1][column];
    }
  }
  return both;
}

std::vector<state_map> make_maps(std::span<const iir_section> sections) {
  std::vector<state_map> maps;
  for (const iir_section& section : sections) {
    const state_map at_rest{{{1.0, 0.0}, {0.0, 1.0}}};
    const state_map step{{{-section.a1, 1.0}, {-section.a2, 0.0}}};
    state_map thread_map = at_rest;
    for (int i = 0; i < thread_steps; ++i) {
      thread_map = followed_by(thread_map, step);
    }
    state_map map = at_rest;
    for (int i = 0; i < section_maps; ++i) {
      maps.push_back(map);
      map = followed_by(map, thread_map);
    }
  }
  return maps;
}

/// The map of the whole cascade over one step with zero input, by rows.
std::vector<double> cascade_step(std::span<const iir_section> sections) {
  const std::size_t rows = 2 * sections.size();
  std::vector<double> map(rows * rows);
  std::vector<double> x(rows);
  for (std::size_t index = 0; index < sections.size(); ++index) {
    const iir_section& section = sections[index];
    std::vector<double> y(rows);
    for (std::size_t column = 0; column < rows; ++column) {
      const double first = column == 2 * index ? 1.0 : 0.0;
      const double second = column == 2 * index + 1 ? 1.0 : 0.0;
      y[column] = section.b0 * x[column] + first;
      map[2 * index * rows + column] = second + section.b1 * x[column] - section.a1 * y[column];
      map[(2 * index + 1) * rows + column] = section.b2 * x[column] - section.a2 * y[column];
    }
    x = std::move(y);
  }
  return map;
}

std::vector<double> squared(std::span<const double> map, std::size_t rows) {
  std::vector<double> both(rows * rows);
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t between = 0; between < rows; ++between) {
      for (std::size_t column = 0; column < rows; ++column) {
        both[row * rows + column] += map[row * rows + between] * map[between * rows + column];
      }
    }
  }
  return both;
}

std::vector<double> make_powers(std::span<const iir_section> sections) {
  const std::size_t rows = 2 * sections.size();
  std::vector<double> powers;
  std::vector<double> map = cascade_step(sections);
  for (int power = 0; power < chunk_powers; ++power) {
    powers.insert(powers.end(), map.begin(), map.end());
    map = squared(map, rows);
  }
  return powers;
}

/// What filter_valid needs.
struct valid_filter {
  session_history<float> history;  ///< of lanes
  std::int64_t frames;
  const iir_section* sections;
  int count;   ///< of the sections
  bool reset;  ///< an invalid sample puts its lane to rest
  float* output;
};

/// A thread takes one lane of a session through its frames of the batch, one step after the other; invalid samples
/// don't reach the filter. The state lies where it is left.
__global__ void __launch_bounds__(block_threads) filter_valid(const valid_filter filter) {
  const session_history<float>& history = filter.history;
  const std::int64_t lanes = history.channels;
  const std::int64_t lane = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (lane >= lanes) {
    return;
  }
  for (auto first = static_cast<std::int32_t>(blockIdx.y); first < filter.frames;
       first += static_cast<std::int32_t>(gridDim.y)) {
    const session_frame& entry = history.session.frames[first];
    if (entry.previous >= 0) {
      continue;
    }
    const auto* const before = reinterpret_cast<const double*>(history.session.half(entry.place, entry.half)) + lane;
    auto* const state = reinterpret_cast<double*>(history.session.half(entry.place, 1 - entry.half)) + lane;
    for (int row = 0; row < 2 * filter.count; ++row) {
      state[row * lanes] = entry.position == 0 ? 0.0 : before[row * lanes];
    }
    for (std::int32_t index = first; index >= 0; index = history.session.frames[index].next) {
      const std::int64_t begin = index * history.pitch + lane;
      for (std::int32_t step = 0; step < history.session.frames[index].steps; ++step) {
        const float sample = history.input[begin + step * lanes];
        if (!isfinite(sample)) {
          filter.output[begin + step * lanes] = NAN;
          for (int row = 0; filter.reset && row < 2 * filter.count; ++row) {
            state[row * lanes] = 0.0;
          }
          continue;
        }
        double x = static_cast<double>(sample);
        for (int section = 0; section < filter.count; ++section) {
          const iir_section& each = filter.sections[section];
          double* const delays = state + 2 * section * lanes;
          const double y = fma(each.b0, x, delays[0]);
          delays[0] = fma(each.b1, x, fma(-each.a1, y, delays[lanes]));
          delays[lanes] = fma(each.b2, x, -each.a2 * y);
          x = y;
        }
        filter.output[begin + step * lanes] = static_cast<float>(x);
      }
    }
  }
}

/// Lanes side by side, see lanes_for.
template <int Lanes>
class iir_cuda final : public operation {
 public:
  explicit iir_cuda(iir_settings settings)
      : settings_{std::move(settings)},
        multiprocessors_{multiprocessor_count()},
        groups_{divide_up(settings_.lanes, Lanes)},
        rows_{static_cast<int>(2 * settings_.sections.size())},
        sections_{settings_.sections},
        maps_{make_maps(settings_.sections)},
        powers_{make_powers(
            std::span{settings_.sections}.first(std::min(settings_.sections.size(), max_chunked_sections)))} {
    load_kernel(&filter_sessions<Lanes>);
    load_kernel(&filter_valid);
    load_kernel(&filter_chunks<Lanes, false>);
    load_kernel(carrier());
    load_kernel(&filter_chunks<Lanes, true>);
  }

  [[nodiscard]] std::size_t state_bytes() const noexcept override { return settings_.state_bytes(); }

  /// There are at most as many blocks for chunks as multiprocessors.
  [[nodiscard]] std::size_t scratch_bytes() const noexcept override {
    return can_chunk() ? static_cast<std::size_t>(multiprocessors_ * Lanes * rows_) * sizeof(double) : 0;
  }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    const batch_extent& extent = arguments.extent;
    if (extent.frames <= 0) {
      return {};
    }
    const session_history<float> history{.input = static_cast<const float*>(arguments.inputs[0]),
                                         .session = arguments.session,
                                         .pitch = settings_.pitch(extent),
                                         .channels = settings_.lanes,
                                         .length = 0};
    const section_table table{sections_.data(), maps_.data(), static_cast<int>(settings_.sections.size())};
    auto* const output = static_cast<float*>(arguments.output);
    if (settings_.on_nan != invalid_samples::spread) {
      const int threads = threads_for(settings_.lanes);
      const dim3 grid(static_cast<unsigned>(divide_up(settings_.lanes, threads)),
                      static_cast<unsigned>(std::min<std::int64_t>(extent.frames, max_grid_rows)));
      return launch(stream, grid, dim3(static_cast<unsigned>(threads)), &filter_valid,
                    valid_filter{.history = history,
                                 .frames = extent.frames,
                                 .sections = sections_.data(),
                                 .count = static_cast<int>(settings_.sections.size()),
                                 .reset = settings_.on_nan == invalid_samples::reset,
                                 .output = output});
    }
    const int power = chunk_power(extent);
    if (power == 0) {
      const dim3 grid(static_cast<unsigned>(extent.frames * groups_));
      return launch(stream, grid, dim3(block_threads), &filter_sessions<Lanes>,
                    iir_sessions{.history = history, .table = table, .output = output, .groups = groups_});
    }
    const iir_chunks chunks{.history = history,
                            .table = table,
                            .powers = powers_.data(),
                            .states = static_cast<double*>(arguments.scratch),
                            .output = output,
                            .chunks = divide_up(history.pitch / history.channels, std::int64_t{1} << power),
                            .chunk_power = power,
                            .rows = rows_};
    const auto frames = static_cast<unsigned>(extent.frames);
    const dim3 grid(static_cast<unsigned>(chunks.chunks), static_cast<unsigned>(groups_), frames);
    const dim3 carriers(static_cast<unsigned>(divide_up(settings_.lanes, block_warps)), frames);
    fault failed = launch(stream, grid, dim3(block_threads), &filter_chunks<Lanes, false>, chunks);
    if (!failed) {
      failed = launch(stream, carriers, dim3(block_threads), carrier(), chunks);
    }
    return failed ? failed : launch(stream, grid, dim3(block_threads), &filter_chunks<Lanes, true>, chunks);
  }

 private:
  using carry_kernel = void (*)(iir_chunks);

  [[nodiscard]] carry_kernel carrier() const noexcept {
    return rows_ <= 4 ? &carry_chunks<4> : rows_ <= 8 ? &carry_chunks<8> : &carry_chunks<warp_threads>;
  }

  [[nodiscard]] bool can_chunk() const noexcept { return settings_.sections.size() <= max_chunked_sections; }

  /// log2 of the steps of a chunk: the shortest chunk of whole tiles that gives at most one chunk a multiprocessor; 0
  /// if frames are not cut.
  [[nodiscard]] int chunk_power(const batch_extent& extent) const noexcept {
    const std::int64_t steps = settings_.pitch(extent) / settings_.lanes;
    const std::int64_t max_chunks = multiprocessors_ / (extent.frames * groups_);
    if (!can_chunk() || max_chunks < min_chunks) {
      return 0;
    }
    int power = std::countr_zero(static_cast<unsigned>(staged_tile<Lanes>::steps));
    while (divide_up(steps, std::int64_t{1} << power) > max_chunks) {
      ++power;
    }
    return divide_up(steps, std::int64_t{1} << power) < min_chunks ? 0 : power;
  }

  const iir_settings settings_;
  const std::int64_t multiprocessors_;
  const std::int64_t groups_;
  const int rows_;
  const device_array<iir_section> sections_;
  const device_array<state_map> maps_;
  const device_array<double> powers_;
};

}  // namespace

std::unique_ptr<operation> make_iir_cuda(const operation_request& request) {
  iir_settings settings = parse_iir(request.settings, request.inputs[0]);
  switch (lanes_for(settings.lanes)) {
    case 1:
      return std::make_unique<iir_cuda<1>>(std::move(settings));
    case 2:
      return std::make_unique<iir_cuda<2>>(std::move(settings));
    case 4:
      return std::make_unique<iir_cuda<4>>(std::move(settings));
    default:
      return std::make_unique<iir_cuda<max_lanes>>(std::move(settings));
  }
}

}  // namespace penstock

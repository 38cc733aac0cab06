#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/detect.hpp"
#include "kernels/hysteresis.hpp"
#include "kernels/hysteresis_scan.cuh"
#include "kernels/launch.cuh"

namespace penstock {
namespace {

/// Each row is cut into segments, a block each; every thread of the block owns one word of 32 samples.
struct detect_rows {
  std::int64_t length;
  std::int64_t segments;  ///< of each row
  std::int64_t items;     ///< segments of all rows
  std::int64_t most;      ///< events listed for a row
  float high;
  float low;
};

/// Where the peaks are gathered: the output itself, a pair (index, value) being as large as a key. A key orders the
/// samples of an event, the larger value first and the earlier sample among equals; 0 is less than any sample's.
using peak_key = unsigned long long;
static_assert(sizeof(peak_key) == 2 * sizeof(float));

__device__ __forceinline__ peak_key key_of(float value, std::uint32_t index) {
  // -0 becomes 0, its equal.
  const std::uint32_t bits = __float_as_uint(__fadd_rn(value, 0.0F));
  const std::uint32_t ordered = (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
  return static_cast<peak_key>(ordered) << 32U | static_cast<std::uint32_t>(~index);
}

/// What each segment does to the state: runs[item].
template <int Threads>
__global__ void __launch_bounds__(Threads)
    summarise_segments(const float* __restrict__ input, detect_rows rows, std::int32_t* __restrict__ runs) {
  constexpr std::int64_t segment_length = Threads * word_samples;
  __shared__ uint2 words[Threads];
  __shared__ std::int32_t of_warps[Threads / warp_threads];
  for (std::int64_t item = blockIdx.x; item < rows.items; item += gridDim.x) {
    const std::int64_t row = item / rows.segments;
    const std::int64_t first = (item - row * rows.segments) * segment_length;
    const auto count = static_cast<int>(min(segment_length, rows.length - first));
    const hysteresis_word word =
        classify<Threads>(input + row * rows.length + first, count, rows.high, rows.low, words);
    const scanned_run scanned = scan_runs<Threads>(hysteresis_run::of(word), of_warps);
    if (threadIdx.x == 0) {
      runs[item] = packed(scanned.whole);
    }
    __syncthreads();
  }
}

/// The first `count` of a row's segments, joined; in every thread.
template <int Threads>
__device__ hysteresis_run join_segments(const std::int32_t* __restrict__ runs, std::int64_t count,
                                        std::int32_t (&of_warps)[Threads / warp_threads]) {
  const std::int64_t share = divide_up(count, Threads);
  const std::int64_t end = min((static_cast<std::int64_t>(threadIdx.x) + 1) * share, count);
  hysteresis_run own;
  for (std::int64_t segment = threadIdx.x * share; segment < end; ++segment) {
    own = own.then(unpacked(runs[segment]));
  }
  return scan_runs<Threads>(own, of_warps).whole;
}

/// Offers the samples of one thread's word to the events that they belong to. `before` is everything in the row before
/// the word. The whole warp takes part: the event that a word ends in often goes on through the next lanes' words, and
/// then only the last of them touches the list.
__device__ void offer_peaks(const float* __restrict__ samples, std::uint32_t first_index, int count,
                            const hysteresis_word& word, const hysteresis_run& before, std::int64_t most,
                            peak_key* list) {
  const std::uint32_t states = word.states_before(before.state_from(false));
  const std::uint32_t present = count >= word_samples ? ~0U : count <= 0 ? 0U : (1U << count) - 1U;
  const std::uint32_t starts = word.starts(states);
  std::uint32_t left = word.events(states) & present;
  std::int32_t event = before.starts - 1;
  peak_key best = 0;
  while (left != 0) {
    const int bit = __ffs(static_cast<int>(left)) - 1;
    left &= left - 1U;
    if ((starts >> bit & 1U) != 0) {
      if (best != 0) {
        atomicMax(list + event, best);
      }
      ++event;
      best = 0;
    }
    if (event >= most) {
      break;
    }
    const float value = samples[bit];
    if (!isnan(value)) {
      best = max(best, key_of(value, first_index + static_cast<std::uint32_t>(bit)));
    }
  }
  __syncwarp();
  const int lane = static_cast<int>(threadIdx.x) % warp_threads;
#pragma unroll
  for (int distance = 1; distance < warp_threads; distance *= 2) {
    const std::int32_t earlier_event = __shfl_up_sync(~0U, event, distance);
    const peak_key earlier = __shfl_up_sync(~0U, best, distance);
    if (lane >= distance && earlier_event == event) {
      best = max(best, earlier);
    }
  }
  const std::int32_t next_event = __shfl_down_sync(~0U, event, 1);
  if (best != 0 && (lane == warp_threads - 1 || next_event != event)) {
    atomicMax(list + event, best);
  }
}

/// `keys` has a row of 1 + most keys for each row of the input, all 0 before; `runs` is read where a row has more
/// segments than one.
template <int Threads>
__global__ void __launch_bounds__(Threads) gather_peaks(const float* __restrict__ input, detect_rows rows,
                                                        const std::int32_t* __restrict__ runs, peak_key* keys) {
  constexpr std::int64_t segment_length = Threads * word_samples;
  __shared__ uint2 words[Threads];
  __shared__ std::int32_t of_warps[Threads / warp_threads];
  for (std::int64_t item = blockIdx.x; item < rows.items; item += gridDim.x) {
    const std::int64_t row = item / rows.segments;
    const std::int64_t segment = item - row * rows.segments;
    const std::int64_t first = segment * segment_length;
    const float* const samples = input + row * rows.length + first;
    const auto count = static_cast<int>(min(segment_length, rows.length - first));
    peak_key* const list = keys + row * (rows.most + 1);

    hysteresis_run entered;
    if (segment > 0) {
      entered = join_segments<Threads>(runs + row * rows.segments, segment, of_warps);
    }
    const hysteresis_word word = classify<Threads>(samples, count, rows.high, rows.low, words);
    const scanned_run scanned = scan_runs<Threads>(hysteresis_run::of(word), of_warps);
    const int offset = static_cast<int>(threadIdx.x) * word_samples;
    offer_peaks(samples + offset, static_cast<std::uint32_t>(first) + static_cast<std::uint32_t>(offset),
                count - offset, word, entered.then(scanned.before), rows.most, list + 1);
    if (segment == rows.segments - 1 && threadIdx.x == 0) {
      const std::int32_t found = entered.then(scanned.whole).starts;
      auto* const header = reinterpret_cast<float*>(list);
      header[0] = static_cast<float>(found);
      header[1] = static_cast<float>(min(static_cast<std::int64_t>(found), rows.most));
    }
    __syncthreads();
  }
}

/// Each key becomes (index, value); a key of 0 becomes (-1, 0).
__global__ void __launch_bounds__(block_threads)
    write_peaks(const float* __restrict__ input, detect_rows rows, peak_key* keys, std::int64_t count) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * block_threads;
  for (std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * block_threads + threadIdx.x; at < count;
       at += stride) {
    const std::int64_t row = at / rows.most;
    peak_key& key = keys[at + row + 1];
    const auto index = ~static_cast<std::uint32_t>(key);
    const float place = key == 0 ? -1.0F : static_cast<float>(index);
    const float value = key == 0 ? 0.0F : input[row * rows.length + index];
    // The pair's first float lies in the lower bytes.
    key = static_cast<peak_key>(__float_as_uint(value)) << 32U | __float_as_uint(place);
  }
}

/// Rows up to so long go to blocks of two warps, longer ones to blocks of eight.
constexpr std::int64_t short_row = 2048;
constexpr int short_threads = 64;

class detect_cuda final : public operation {
 public:
  detect_cuda(detect_settings settings, std::int64_t most_rows)
      : settings_{std::move(settings)}, most_rows_{most_rows}, multiprocessors_{multiprocessor_count()} {}

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override {
    const std::int64_t segments = segments_of(settings_.rows.max_length());
    return segments > 1 ? static_cast<std::size_t>(most_rows_ * segments) * sizeof(std::int32_t) : 0;
  }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    const std::int64_t count = settings_.rows.count(arguments.extent);
    const std::int64_t length = settings_.rows.length(arguments.extent);
    if (count <= 0) {
      return {};
    }
    const std::int64_t segments = segments_of(length);
    const detect_rows rows{length, segments, count * segments, settings_.max_events, settings_.high, settings_.low};
    const auto* const input = static_cast<const float*>(arguments.inputs[0]);
    auto* const keys = static_cast<peak_key*>(arguments.output);
    auto* const runs = static_cast<std::int32_t*>(arguments.scratch);
    const auto bytes = static_cast<std::size_t>(count * settings_.row_results()) * sizeof(float);
    if (const fault failed = clear(stream, keys, bytes)) {
      return failed;
    }
    if (const fault failed = length <= short_row ? gather<short_threads>(stream, input, rows, runs, keys)
                                                 : gather<block_threads>(stream, input, rows, runs, keys)) {
      return failed;
    }
    const std::int64_t listed = count * settings_.max_events;
    return launch(stream, grid_of(divide_up(listed, block_threads), resident_blocks(multiprocessors_)),
                  dim3(block_threads), &write_peaks, input, rows, keys, listed);
  }

 private:
  [[nodiscard]] static std::int64_t segments_of(std::int64_t length) noexcept {
    return length <= short_row ? 1 : divide_up(length, block_threads * word_samples);
  }

  template <int Threads>
  fault gather(void* stream, const float* input, const detect_rows& rows, std::int32_t* runs, peak_key* keys) noexcept {
    const dim3 grid = grid_of(rows.items, multiprocessors_ * std::min<std::int64_t>(2048 / Threads, 32));
    if (rows.segments > 1) {
      if (const fault failed = launch(stream, grid, dim3(Threads), &summarise_segments<Threads>, input, rows, runs)) {
        return failed;
      }
    }
    return launch(stream, grid, dim3(Threads), &gather_peaks<Threads>, input, rows, runs, keys);
  }

  const detect_settings settings_;
  const std::int64_t most_rows_;
  const std::int64_t multiprocessors_;
};

}  // namespace

std::unique_ptr<operation> make_detect_cuda(const operation_request& request) {
  detect_settings parsed = parse_detect(request.settings, request.inputs[0]);
  const std::int64_t most_rows = parsed.rows.count({request.max_frames, request.inputs[0].shape.front()});
  return std::make_unique<detect_cuda>(std::move(parsed), most_rows);
}

}  // namespace penstock

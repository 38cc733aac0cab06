#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "kernels/detect.hpp"
#include "kernels/hysteresis.hpp"
#include "kernels/launch.cuh"

namespace penstock {

/// Samples of a hysteresis_word.
inline constexpr int word_samples = 32;
/// A value that is neither above nor below a threshold.
inline constexpr float neutral_sample = std::numeric_limits<float>::quiet_NaN();

// A run in one register: at most 2^23 events start in a row.
__device__ __forceinline__ std::int32_t packed(const hysteresis_run& run) {
  return run.starts * 8 + (run.first_sets ? 4 : 0) + (run.neutral ? 2 : 0) + (run.leaves_on ? 1 : 0);
}
__device__ __forceinline__ hysteresis_run unpacked(std::int32_t run) {
  return {run >> 3, (run & 4) != 0, (run & 2) != 0, (run & 1) != 0};
}

/// The words of a segment of `count` samples, each compared by a warp and handed to its thread; samples beyond `count`
/// are neutral. Synchronizes the block.
template <int Threads>
__device__ hysteresis_word classify(const float* __restrict__ samples, int count, float high, float low,
                                    uint2 (&words)[Threads]) {
  const int lane = static_cast<int>(threadIdx.x) % warp_threads;
#pragma unroll 8
  for (int word = static_cast<int>(threadIdx.x) / warp_threads; word < Threads; word += Threads / warp_threads) {
    const int at = word * word_samples + lane;
    const float value = at < count ? samples[at] : neutral_sample;
    const std::uint32_t set = __ballot_sync(~0U, value >= high);
    const std::uint32_t reset = __ballot_sync(~0U, value < low);
    if (lane == 0) {
      words[word] = make_uint2(set, reset);
    }
  }
  __syncthreads();
  return {words[threadIdx.x].x, words[threadIdx.x].y};
}

struct scanned_run {
  hysteresis_run before;  ///< the runs of the threads before this one, joined
  hysteresis_run whole;   ///< those of all threads
};

/// Joins the runs of a block's threads in their order. Synchronizes the block once; `warp_runs` may be written again
/// after the next synchronization.
template <int Threads>
__device__ scanned_run scan_runs(const hysteresis_run& own, std::int32_t (&warp_runs)[Threads / warp_threads]) {
  const int lane = static_cast<int>(threadIdx.x) % warp_threads;
  const int warp = static_cast<int>(threadIdx.x) / warp_threads;
  hysteresis_run through = own;
#pragma unroll
  for (int distance = 1; distance < warp_threads; distance *= 2) {
    const hysteresis_run earlier = unpacked(__shfl_up_sync(~0U, packed(through), distance));
    if (lane >= distance) {
      through = earlier.then(through);
    }
  }
  const hysteresis_run in_warp = unpacked(__shfl_up_sync(~0U, packed(through), 1));
  if (lane == warp_threads - 1) {
    warp_runs[warp] = packed(through);
  }
  __syncthreads();
  scanned_run scanned;
#pragma unroll
  for (int other = 0; other < Threads / warp_threads; ++other) {
    if (other == warp) {
      scanned.before = scanned.whole;
    }
    scanned.whole = scanned.whole.then(unpacked(warp_runs[other]));
  }
  if (lane > 0) {
    scanned.before = scanned.before.then(in_warp);
  }
  return scanned;
}

namespace {

/// Each row is cut into segments, a block each; every thread of the block owns one word of 32 samples.
struct detect_rows {
  std::int64_t length;
  std::int64_t segments;  ///< of each row
  std::int64_t items;     ///< segments of all rows
  std::int64_t most;      ///< events listed for a row
  float high;
  float low;
  const double* numbers = nullptr;  ///< detect_numbers by frame; nullptr: the same for all
  std::int64_t rows_of_frame = 1;

  /// The thresholds of a row: high and low.
  [[nodiscard]] __device__ float2 thresholds(std::int64_t row) const {
    if (numbers == nullptr) {
      return make_float2(high, low);
    }
    const double* const own = numbers + row / rows_of_frame * 2;
    return make_float2(static_cast<float>(own[0]), static_cast<float>(own[1]));
  }
};

/// Peaks are gathered in the output itself: a pair (index, value) is as large as a key. Keys order the samples of an
/// event by value, equal ones by index, the earlier first; 0 is less than the key of any sample.
using peak_key = unsigned long long;
static_assert(sizeof(peak_key) == 2 * sizeof(float));

__device__ __forceinline__ peak_key key_of(float value, std::uint32_t index) {
  // -0 becomes 0, its equal.
  const std::uint32_t bits = __float_as_uint(__fadd_rn(value, 0.0F));
  const std::uint32_t ordered = (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
  return static_cast<peak_key>(ordered) << 32U | static_cast<std::uint32_t>(~index);
}

/// The run of each segment: runs[item].
template <int Threads>
__global__ void __launch_bounds__(Threads)
    summarise_segments(const float* __restrict__ input, detect_rows rows, std::int32_t* __restrict__ runs) {
  constexpr std::int64_t segment_length = Threads * word_samples;
  __shared__ uint2 words[Threads];
  __shared__ std::int32_t warp_runs[Threads / warp_threads];
  for (std::int64_t item = blockIdx.x; item < rows.items; item += gridDim.x) {
    const std::int64_t row = item / rows.segments;
    const std::int64_t first = (item - row * rows.segments) * segment_length;
    const auto count = static_cast<int>(min(segment_length, rows.length - first));
    const float2 thresholds = rows.thresholds(row);
    const hysteresis_word word =
        classify<Threads>(input + row * rows.length + first, count, thresholds.x, thresholds.y, words);
    const scanned_run scanned = scan_runs<Threads>(hysteresis_run::of(word), warp_runs);
    if (threadIdx.x == 0) {
      runs[item] = packed(scanned.whole);
    }
    __syncthreads();
  }
}

/// The first `count` of a row's segments, joined; in every thread.
template <int Threads>
__device__ hysteresis_run join_segments(const std::int32_t* __restrict__ runs, std::int64_t count,
                                        std::int32_t (&warp_runs)[Threads / warp_threads]) {
  const std::int64_t share = divide_up(count, Threads);
  const std::int64_t end = min((static_cast<std::int64_t>(threadIdx.x) + 1) * share, count);
  hysteresis_run own;
  for (std::int64_t segment = threadIdx.x * share; segment < end; ++segment) {
    own = own.then(unpacked(runs[segment]));
  }
  return scan_runs<Threads>(own, warp_runs).whole;
}

/// Offers the samples of the word of one thread to their events. `before` is everything in the row before the word. The
/// whole warp takes part: an event that continues through the words of the next lanes is reported only by the last of
/// them.
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

/// `keys` has a row of 1 + most keys for each row of the input, initially 0. `runs` is read for rows with several
/// segments.
template <int Threads>
__global__ void __launch_bounds__(Threads) gather_peaks(const float* __restrict__ input, detect_rows rows,
                                                        const std::int32_t* __restrict__ runs, peak_key* keys) {
  constexpr std::int64_t segment_length = Threads * word_samples;
  __shared__ uint2 words[Threads];
  __shared__ std::int32_t warp_runs[Threads / warp_threads];
  for (std::int64_t item = blockIdx.x; item < rows.items; item += gridDim.x) {
    const std::int64_t row = item / rows.segments;
    const std::int64_t segment = item - row * rows.segments;
    const std::int64_t first = segment * segment_length;
    const float* const samples = input + row * rows.length + first;
    const auto count = static_cast<int>(min(segment_length, rows.length - first));
    peak_key* const list = keys + row * (rows.most + 1);

    hysteresis_run entered;
    if (segment > 0) {
      entered = join_segments<Threads>(runs + row * rows.segments, segment, warp_runs);
    }
    const float2 thresholds = rows.thresholds(row);
    const hysteresis_word word = classify<Threads>(samples, count, thresholds.x, thresholds.y, words);
    const scanned_run scanned = scan_runs<Threads>(hysteresis_run::of(word), warp_runs);
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

/// Rows of at most as many samples as a warp has bits: a warp takes a row, a lane each word of it, and keeps the row's
/// keys until they are whole.
constexpr std::int64_t warp_row = std::int64_t{warp_threads} * word_samples;
constexpr std::int64_t warp_events = 64;

__global__ void __launch_bounds__(block_threads)
    detect_by_warp(const float* __restrict__ input, detect_rows rows, float2* __restrict__ output) {
  __shared__ peak_key keys[block_warps][warp_events];
  const int lane = static_cast<int>(threadIdx.x) % warp_threads;
  peak_key* const list = keys[threadIdx.x / warp_threads];
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * block_warps;
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * block_warps + threadIdx.x / warp_threads;
       row < rows.items; row += warps) {
    const float* const samples = input + row * rows.length;
    const auto count = static_cast<int>(rows.length);
    const float2 thresholds = rows.thresholds(row);
    float values[warp_threads];
#pragma unroll
    for (int each = 0; each < warp_threads; ++each) {
      const int at = each * word_samples + lane;
      values[each] = at < count ? samples[at] : neutral_sample;
    }
    hysteresis_word word;
#pragma unroll
    for (int each = 0; each < warp_threads; ++each) {
      const std::uint32_t set = __ballot_sync(~0U, values[each] >= thresholds.x);
      const std::uint32_t reset = __ballot_sync(~0U, values[each] < thresholds.y);
      word = lane == each ? hysteresis_word{set, reset} : word;
    }
    // A word as a whole leads to on, to off or to where it was, as a sample does.
    const auto leaves_on = [&](bool initial) { return (word.events(word.states_before(initial)) >> 31U) != 0; };
    const hysteresis_word words{__ballot_sync(~0U, leaves_on(false)), ~__ballot_sync(~0U, leaves_on(true))};
    const bool initial = (words.states_before(false) >> static_cast<unsigned>(lane) & 1U) != 0;
    const int own = __popc(word.starts(word.states_before(initial)));
    int through = own;
#pragma unroll
    for (int distance = 1; distance < warp_threads; distance *= 2) {
      const int earlier = __shfl_up_sync(~0U, through, distance);
      through += lane >= distance ? earlier : 0;
    }
    const int found = __shfl_sync(~0U, through, warp_threads - 1);
    const int listed = min(found, static_cast<int>(rows.most));
    if (found > 0) {
      for (int event = lane; event < listed; event += warp_threads) {
        list[event] = 0;
      }
      __syncwarp();
      const hysteresis_run before{.starts = through - own, .first_sets = false, .neutral = false, .leaves_on = initial};
      offer_peaks(samples + lane * word_samples, static_cast<std::uint32_t>(lane * word_samples),
                  count - lane * word_samples, word, before, rows.most, list);
      __syncwarp();
    }
    float2* const out = output + row * (rows.most + 1);
    if (lane == 0) {
      out[0] = make_float2(static_cast<float>(found), static_cast<float>(listed));
    }
    for (int event = lane; event < rows.most; event += warp_threads) {
      const auto index = event < listed ? ~static_cast<std::uint32_t>(list[event]) : 0U;
      out[1 + event] =
          event < listed ? make_float2(static_cast<float>(index), samples[index]) : make_float2(-1.0F, 0.0F);
    }
    __syncwarp();
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

/// Longest rows for blocks of two warps; longer ones use blocks of eight.
constexpr std::int64_t short_row = 2048;
constexpr int short_threads = 64;

class detect_cuda final : public operation {
 public:
  detect_cuda(detect_settings settings, std::int64_t max_rows)
      : settings_{std::move(settings)}, max_rows_{max_rows}, multiprocessors_{multiprocessor_count()} {}

  [[nodiscard]] std::size_t scratch_bytes() const noexcept override {
    const std::int64_t segments = segments_of(settings_.rows.max_length());
    return segments > 1 ? static_cast<std::size_t>(max_rows_ * segments) * sizeof(std::int32_t) : 0;
  }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    const std::int64_t count = settings_.rows.count(arguments.extent);
    const std::int64_t length = settings_.rows.length(arguments.extent);
    if (count <= 0) {
      return {};
    }
    const std::int64_t segments = segments_of(length);
    const detect_rows rows{.length = length,
                           .segments = segments,
                           .items = count * segments,
                           .most = settings_.max_events,
                           .high = settings_.high,
                           .low = settings_.low,
                           .numbers = arguments.numbers,
                           .rows_of_frame = count / arguments.extent.frames};
    const auto* const input = static_cast<const float*>(arguments.inputs[0]);
    if (length <= warp_row && rows.most <= warp_events) {
      return launch(stream, grid_of(divide_up(count, block_warps), most_blocks(multiprocessors_)), dim3(block_threads),
                    &detect_by_warp, input, rows, static_cast<float2*>(arguments.output));
    }
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
    return launch(stream, grid_of(divide_up(listed, block_threads), most_blocks(multiprocessors_)), dim3(block_threads),
                  &write_peaks, input, rows, keys, listed);
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
  const std::int64_t max_rows_;
  const std::int64_t multiprocessors_;
};

/// What the search of sessions needs of detect_settings.
struct event_rules {
  detect_thresholds limits;
  const double* numbers;  ///< detect_numbers by frame; nullptr: the same for all
  std::int64_t gap;
  std::int64_t min_length;
  std::int64_t most;  ///< listed
  std::int64_t channels;
  std::int64_t in_pitch;  ///< elements from one frame to the next
  std::int64_t out_pitch;

  /// Numbers of the output for each channel.
  [[nodiscard]] __device__ std::int64_t channel_results() const { return (most + 1) * event_numbers; }
  [[nodiscard]] __device__ detect_thresholds thresholds(std::int32_t frame) const {
    if (numbers == nullptr) {
      return limits;
    }
    const double* const own = numbers + static_cast<std::int64_t>(frame) * 2;
    return {static_cast<float>(own[0]), static_cast<float>(own[1])};
  }
};

/// A warp's search of one channel: 32 samples at a time. Every lane has the state.
struct event_search {
  const event_rules& rules;
  event_state state;
  detect_thresholds limits{};  ///< of this frame
  std::int64_t found = 0;
  double* out = nullptr;  ///< of this frame and channel
  int lane;

  __device__ event_search(const event_rules& with, int this_lane) : rules{with}, lane{this_lane} {}

  /// Tells of the event that is over.
  __device__ void list() {
    state.phase = event_state::off;
    if (state.end - state.start < rules.min_length) {
      return;
    }
    if (found < rules.most && lane == 0) {
      double* const row = out + (found + 1) * event_numbers;
      row[0] = static_cast<double>(state.start);
      row[1] = static_cast<double>(state.end);
      row[2] = static_cast<double>(state.peak);
      row[3] = static_cast<double>(state.value);
    }
    ++found;
  }

  /// Raises the peak by the samples of lanes first … end − 1.
  __device__ void raise(float value, std::int64_t sample, int first, int end) {
    const bool above = lane >= first && lane < end && value > state.value;
    if (__ballot_sync(~0U, above) == 0) {
      return;
    }
    const float candidate = above ? value : -INFINITY;
    float largest = candidate;
    for (int distance = warp_threads / 2; distance > 0; distance /= 2) {
      largest = fmaxf(largest, __shfl_xor_sync(~0U, largest, distance));
    }
    state.peak = sample + __ffs(__ballot_sync(~0U, above && candidate == largest)) - 1;
    state.value = largest;
  }

  /// Takes `count` ≤ 32 samples, of which this lane has one; the first is number `sample` of the session.
  __device__ void take(float value, std::int64_t sample, int count) {
    const unsigned sets = __ballot_sync(~0U, lane < count && value >= limits.high);
    const unsigned resets = __ballot_sync(~0U, lane < count && value < limits.low);
    for (int at = 0; at < count;) {
      const unsigned rest = ~0U << static_cast<unsigned>(at);
      if (state.phase == event_state::on) {
        const int end = (resets & rest) != 0 ? __ffs(resets & rest) - 1 : count;
        raise(value, sample, at, end);
        at = end;
        if (end < count) {
          state.phase = event_state::pausing;
          state.end = sample + end;
        }
        continue;
      }
      const int next = (sets & rest) != 0 ? __ffs(sets & rest) - 1 : count;
      const std::int64_t over = state.end + rules.gap;  // the sample after which a pause has been too long
      if (state.phase == event_state::pausing && over < sample + count && over < sample + next) {
        list();
        at = max(at, static_cast<int>(over - sample));
        continue;
      }
      if (next == count) {
        return;
      }
      const float first = __shfl_sync(~0U, value, next);
      if (state.phase == event_state::off) {
        state.start = sample + next;
        state.peak = sample + next;
        state.value = first;
      } else if (first > state.value) {
        state.peak = sample + next;
        state.value = first;
      }
      state.phase = event_state::on;
      at = next + 1;
    }
  }

  /// Writes what a frame has beside its events.
  __device__ void finish() {
    const std::int64_t listed = min(found, rules.most);
    const bool under_way = state.phase != event_state::off;
    if (lane == 0) {
      out[0] = static_cast<double>(found);
      out[1] = static_cast<double>(listed);
      out[2] = under_way ? static_cast<double>(state.start) : -1.0;
      out[3] = under_way ? static_cast<double>(state.value) : 0.0;
    }
    for (std::int64_t number = (listed + 1) * event_numbers + lane; number < rules.channel_results();
         number += warp_threads) {
      out[number] = number % event_numbers == event_numbers - 1 ? 0.0 : -1.0;
    }
  }
};

/// One warp for each channel of each session of the batch, which takes the session's frames one after the other.
__global__ void __launch_bounds__(block_threads)
    search_sessions(const float* __restrict__ input, const session_arguments session, std::int64_t frames,
                    const event_rules rules, double* __restrict__ output) {
  const int lane = static_cast<int>(threadIdx.x) % warp_threads;
  const std::int64_t channel = static_cast<std::int64_t>(blockIdx.x) * block_warps + threadIdx.x / warp_threads;
  if (channel >= rules.channels) {
    return;
  }
  for (auto first = static_cast<std::int32_t>(blockIdx.y); first < frames;
       first += static_cast<std::int32_t>(gridDim.y)) {
    const session_frame& entry = session.frames[first];
    if (entry.previous >= 0) {
      continue;
    }
    event_search search(rules, lane);
    if (entry.position != 0) {
      search.state = reinterpret_cast<const event_state*>(session.half(entry.place, entry.half))[channel];
    }
    for (std::int32_t index = first; index >= 0; index = session.frames[index].next) {
      const session_frame& frame = session.frames[index];
      const float* const samples = input + index * rules.in_pitch + channel;
      search.limits = rules.thresholds(index);
      search.found = 0;
      search.out = output + index * rules.out_pitch + channel * rules.channel_results();
      const auto load = [&](std::int32_t at) {
        return at + lane < frame.steps ? samples[(at + lane) * rules.channels] : 0.0F;
      };
      float value = load(0);
      for (std::int32_t at = 0; at < frame.steps; at += warp_threads) {
        const float next = load(at + warp_threads);
        search.take(value, frame.position + at, min(frame.steps - at, warp_threads));
        value = next;
      }
      search.finish();
    }
    if (lane == 0) {
      reinterpret_cast<event_state*>(session.half(entry.place, 1 - entry.half))[channel] = search.state;
    }
  }
}

class detect_session_cuda final : public operation {
 public:
  explicit detect_session_cuda(detect_settings settings) : settings_{std::move(settings)} {}

  [[nodiscard]] std::size_t state_bytes() const noexcept override {
    return static_cast<std::size_t>(settings_.channels()) * sizeof(event_state);
  }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    const batch_extent& extent = arguments.extent;
    if (extent.frames <= 0) {
      return {};
    }
    const event_rules rules{.limits = {settings_.high, settings_.low},
                            .numbers = arguments.numbers,
                            .gap = settings_.gap,
                            .min_length = settings_.min_length,
                            .most = settings_.max_events,
                            .channels = settings_.channels(),
                            .in_pitch = settings_.input.elements(extent.leading),
                            .out_pitch = settings_.output.elements()};
    const dim3 grid(static_cast<unsigned>(divide_up(rules.channels, block_warps)),
                    static_cast<unsigned>(std::min<std::int64_t>(extent.frames, max_grid_rows)));
    return launch(stream, grid, dim3(block_threads), &search_sessions, static_cast<const float*>(arguments.inputs[0]),
                  arguments.session, extent.frames, rules, static_cast<double*>(arguments.output));
  }

 private:
  const detect_settings settings_;
};

}  // namespace

std::unique_ptr<operation> make_detect_cuda(const operation_request& request) {
  detect_settings parsed = parse_detect(request.settings, request.inputs[0]);
  if (parsed.along_session) {
    return std::make_unique<detect_session_cuda>(std::move(parsed));
  }
  const std::int64_t max_rows = parsed.rows.count({request.max_frames, request.inputs[0].shape.front()});
  return std::make_unique<detect_cuda>(std::move(parsed), max_rows);
}

}  // namespace penstock

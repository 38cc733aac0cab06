#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/pack.cuh"
#include "kernels/reframe.hpp"
#include "kernels/session.cuh"

namespace penstock {
namespace {

/// What of reframe_settings the kernel needs.
struct row_grid {
  std::int64_t length;
  step_rate rate;
};

/// Rows that follow one another are steps that do. A step is `history.channels` words. For each frame, all blocks of a
/// row of the grid write rows, and the first `keeps` of them write the state of its session.
template <class Word>
__global__ void __launch_bounds__(block_threads)
    reframe_words(session_history<Word> history, std::int64_t frames, std::int64_t keeps, row_grid rows,
                  std::int64_t pitch, Word* __restrict__ output) {
  const std::int64_t part_elements = std::int64_t{elements_at_once} * blockDim.x;
  const std::int64_t part = blockIdx.x;
  for (auto index = static_cast<std::int32_t>(blockIdx.y); index < frames;
       index += static_cast<std::int32_t>(gridDim.y)) {
    const session_frame& frame = history.session.frames[index];
    const std::int64_t first = part * part_elements;
    const std::int64_t count = min(part_elements, frame.produced * rows.length * history.channels - first);
    if (count > 0) {
      const std::int64_t start = reframe_settings::start_of(rows.rate, rows.length, frame.position) - frame.position;
      Word* const destination = output + index * pitch + first;
      copy_elements(history, index, start * history.channels + first, static_cast<int>(count), destination);
    }
    if (part < keeps) {
      keep_part(history, index, part, keeps);
    }
  }
}

/// Packs that a thread of reframe_rows has in flight.
constexpr int packs_at_once = 4;

/// A pack of words that need not be aligned as one.
template <int Width, class Word>
[[nodiscard]] __device__ __forceinline__ pack<Word, Width> load_words(const Word* source) {
  pack<Word, Width> words;
#pragma unroll
  for (int word = 0; word < Width; ++word) {
    words.at[word] = source[word];
  }
  return words;
}

/// The same for rows that overlap or leave steps out: a thread takes packs of `Width` words, each within a row. Packs
/// of the frame itself and of the state before it are copied at once, those of the frame whole if they are aligned.
/// `Place` counts the words of a frame.
template <class Word, int Width, class Place>
__global__ void __launch_bounds__(block_threads, 5)
    reframe_rows(session_history<Word> history, std::int64_t frames, std::int64_t keeps, row_grid rows,
                 std::int64_t pitch, Word* __restrict__ output) {
  const auto row_words = static_cast<Place>(rows.length * history.channels);
  const auto hop_words = static_cast<Place>(rows.rate.divisor * history.channels);
  const auto first = static_cast<Place>((std::int64_t{packs_at_once} * blockIdx.x * blockDim.x + threadIdx.x) * Width);
  const Place first_row = first / row_words;
  const auto step = static_cast<Place>(Width * blockDim.x);
  const Place row_step = step / row_words;
  for (auto index = static_cast<std::int32_t>(blockIdx.y); index < frames;
       index += static_cast<std::int32_t>(gridDim.y)) {
    const session_frame& frame = history.session.frames[index];
    const auto count = static_cast<Place>(frame.produced * row_words);
    const auto start = static_cast<Place>(
        (reframe_settings::start_of(rows.rate, rows.length, frame.position) - frame.position) * history.channels);
    const Word* const input = history.input + index * history.pitch;
    const Word* const state = reinterpret_cast<const Word*>(history.session.half(frame.place, frame.half)) +
                              history.length * history.channels;
    const auto in_state =
        static_cast<Place>(frame.previous < 0 ? min(frame.position, history.length) * history.channels : 0);
    const bool aligned =
        hop_words % Width == 0 && reinterpret_cast<std::uintptr_t>(input + start) % sizeof(pack<Word, Width>) == 0;
    Place sources[packs_at_once];
    Place place = first - first_row * row_words;
    Place source = start + first_row * hop_words + place;
#pragma unroll
    for (int each = 0; each < packs_at_once; ++each) {
      sources[each] = source;
      place += step - row_step * row_words;
      const bool next_row = place >= row_words;
      place -= next_row ? row_words : 0;
      source += step + (row_step + (next_row ? 1 : 0)) * (hop_words - row_words);
    }
    pack<Word, Width> packs[packs_at_once];
#pragma unroll
    for (int each = 0; each < packs_at_once; ++each) {
      if (first + each * step < count) {
        if (sources[each] >= 0 && aligned) {
          packs[each] = load_pack<Width>(input + sources[each]);
        } else if (sources[each] >= 0 || (sources[each] >= -in_state && sources[each] <= -Width)) {
          packs[each] = load_words<Width>((sources[each] >= 0 ? input : state) + sources[each]);
        } else {
#pragma unroll 1
          for (int word = 0; word < Width; ++word) {
            output[index * pitch + first + each * step + word] = history.at_element(index, sources[each] + word);
          }
          sources[each] = -in_state - 1;
        }
      }
    }
    Word* const to = output + index * pitch + first;
#pragma unroll
    for (int each = 0; each < packs_at_once; ++each) {
      if (first + each * step < count && sources[each] >= -in_state) {
        store_pack<Width>(to + each * step, packs[each]);
      }
    }
    if (blockIdx.x < keeps) {
      keep_part(history, index, blockIdx.x, keeps);
    }
  }
}

class reframe_cuda final : public operation {
 public:
  explicit reframe_cuda(reframe_settings settings) : settings_{std::move(settings)} {}

  [[nodiscard]] std::size_t state_bytes() const noexcept override {
    return static_cast<std::size_t>(settings_.kept) * settings_.step_bytes;
  }

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    switch (settings_.word) {
      case 1:
        return copy<unsigned char>(stream, arguments);
      case 2:
        return copy<unsigned short>(stream, arguments);
      case 4:
        return copy<unsigned int>(stream, arguments);
      case 8:
        return copy<uint2>(stream, arguments);
      default:
        return copy<uint4>(stream, arguments);
    }
  }

 private:
  template <class Word>
  fault copy(void* stream, const operation_arguments& arguments) noexcept {
    const batch_extent& extent = arguments.extent;
    if (extent.frames <= 0) {
      return {};
    }
    const session_history<Word> history{
        .input = static_cast<const Word*>(arguments.inputs[0]),
        .session = arguments.session,
        .pitch = static_cast<std::int64_t>(settings_.input.bytes(extent.leading) / sizeof(Word)),
        .channels = static_cast<std::int64_t>(settings_.step_bytes / sizeof(Word)),
        .length = settings_.kept,
    };
    const auto pitch =
        static_cast<std::int64_t>(settings_.output.bytes(settings_.rate().most(extent.leading)) / sizeof(Word));
    const std::int64_t keeps = keep_parts(history.length, history.channels);
    const auto enqueue = [&](auto* kernel, std::int64_t words) {  // of a thread
      const int threads = threads_for(divide_up(pitch, words));
      const std::int64_t parts = std::max(divide_up(pitch, words * threads), keeps);
      const dim3 grid(static_cast<unsigned>(parts),
                      static_cast<unsigned>(std::min<std::int64_t>(extent.frames, max_grid_rows)));
      return launch(stream, grid, dim3(threads), kernel, history, extent.frames, keeps,
                    row_grid{settings_.length, settings_.rate()}, pitch, static_cast<Word*>(arguments.output));
    };
    if (settings_.hop == settings_.length) {
      return enqueue(&reframe_words<Word>, elements_at_once);
    }
    constexpr int width = 16 / sizeof(Word);
    constexpr std::int64_t most_32_bits = std::int64_t{1} << 30;
    const auto enqueue_rows = [&](auto place) {
      return settings_.length * history.channels % width == 0
                 ? enqueue(&reframe_rows<Word, width, decltype(place)>, std::int64_t{packs_at_once} * width)
                 : enqueue(&reframe_rows<Word, 1, decltype(place)>, packs_at_once);
    };
    const std::int64_t reach = std::max(history.length, settings_.hop) * history.channels;
    return std::max(pitch, history.pitch + reach) < most_32_bits ? enqueue_rows(std::int32_t{})
                                                                 : enqueue_rows(std::int64_t{});
  }

  const reframe_settings settings_;
};

}  // namespace

std::unique_ptr<operation> make_reframe_cuda(const operation_request& request) {
  return std::make_unique<reframe_cuda>(parse_reframe(request.settings, request.inputs[0]));
}

}  // namespace penstock

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
template <class Word, int Width>
__global__ void __launch_bounds__(block_threads)
    reframe_rows(session_history<Word> history, std::int64_t frames, std::int64_t keeps, row_grid rows,
                 std::int64_t pitch, Word* __restrict__ output) {
  const std::int64_t row_words = rows.length * history.channels;
  const std::int64_t hop_words = rows.rate.divisor * history.channels;
  const std::int64_t first = (std::int64_t{packs_at_once} * blockIdx.x * blockDim.x + threadIdx.x) * Width;
  const std::int64_t step = std::int64_t{Width} * blockDim.x;
  const bool narrow = pitch <= 0x7FFF'FFFF;  // a division of 32 bits is several times as fast
  for (auto index = static_cast<std::int32_t>(blockIdx.y); index < frames;
       index += static_cast<std::int32_t>(gridDim.y)) {
    const session_frame& frame = history.session.frames[index];
    const std::int64_t count = frame.produced * row_words;
    const std::int64_t start =
        (reframe_settings::start_of(rows.rate, rows.length, frame.position) - frame.position) * history.channels;
    const Word* const input = history.input + index * history.pitch;
    const Word* const state = reinterpret_cast<const Word*>(history.session.half(frame.place, frame.half)) +
                              history.length * history.channels;
    const std::int64_t in_state = frame.previous < 0 ? min(frame.position, history.length) * history.channels : 0;
    const bool aligned =
        hop_words % Width == 0 && reinterpret_cast<std::uintptr_t>(input + start) % sizeof(pack<Word, Width>) == 0;
    std::int64_t sources[packs_at_once];
    pack<Word, Width> packs[packs_at_once];
#pragma unroll
    for (int each = 0; each < packs_at_once; ++each) {
      const std::int64_t at = first + each * step;
      if (at < count) {
        const std::int64_t row = narrow ? static_cast<unsigned>(at) / static_cast<unsigned>(row_words) : at / row_words;
        const std::int64_t source = start + row * hop_words + (at - row * row_words);
        sources[each] = source;
        if (source >= 0) {
          packs[each] = aligned ? load_pack<Width>(input + source) : load_words<Width>(input + source);
        } else if (source >= -in_state && source <= -Width) {
          packs[each] = load_words<Width>(state + source);
        }
      }
    }
#pragma unroll
    for (int each = 0; each < packs_at_once; ++each) {
      const std::int64_t at = first + each * step;
      if (at < count) {
        const std::int64_t source = sources[each];
        if (source >= 0 || (source >= -in_state && source <= -Width)) {
          store_pack<Width>(output + index * pitch + at, packs[each]);
        } else {
#pragma unroll 1
          for (int word = 0; word < Width; ++word) {
            output[index * pitch + at + word] = history.at_element(index, source + word);
          }
        }
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
    return settings_.length * history.channels % width == 0
               ? enqueue(&reframe_rows<Word, width>, std::int64_t{packs_at_once} * width)
               : enqueue(&reframe_rows<Word, 1>, packs_at_once);
  }

  const reframe_settings settings_;
};

}  // namespace

std::unique_ptr<operation> make_reframe_cuda(const operation_request& request) {
  return std::make_unique<reframe_cuda>(parse_reframe(request.settings, request.inputs[0]));
}

}  // namespace penstock

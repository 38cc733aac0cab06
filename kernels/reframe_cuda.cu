#include <cstddef>
#include <utility>

#include "kernels/reframe.hpp"
#include "kernels/session_state.cuh"

namespace penstock {
namespace {

/// How the blocks share a batch: of each frame, `copies` blocks write its rows and `keeps` its session's state.
struct reframe_split {
  std::int64_t items = 0;
  std::int64_t copies = 1;
  std::int64_t keeps = 1;
};

/// Words that each thread copies. All are read before the first is written.
constexpr int words_a_thread = 8;
constexpr std::int64_t words_a_block = std::int64_t{words_a_thread} * block_threads;

/// A step is `history.channels` words.
template <class Word>
__global__ void __launch_bounds__(block_threads)
    reframe_words(session_history<Word> history, reframe_split split, std::int64_t length, std::int64_t pitch,
                  Word* __restrict__ output) {
  const std::int64_t parts = split.copies + split.keeps;
  for (std::int64_t item = blockIdx.x; item < split.items; item += gridDim.x) {
    const auto index = static_cast<std::int32_t>(item / parts);
    const std::int64_t part = item - index * parts;
    if (part >= split.copies) {
      keep_part(history, index, part - split.copies, split.keeps);
      continue;
    }
    const session_frame& frame = history.session.frames[index];
    const std::int64_t first = -(frame.position % length) * history.channels;
    const std::int64_t count = frame.produced * length * history.channels;
    const std::int64_t from = part * words_a_block + threadIdx.x;
    Word* const to = output + index * pitch;
    Word words[words_a_thread];
#pragma unroll
    for (int each = 0; each < words_a_thread; ++each) {
      const std::int64_t word = from + each * block_threads;
      if (word < count) {
        words[each] = history.at_element(index, first + word);
      }
    }
#pragma unroll
    for (int each = 0; each < words_a_thread; ++each) {
      const std::int64_t word = from + each * block_threads;
      if (word < count) {
        to[word] = words[each];
      }
    }
  }
}

class reframe_cuda final : public operation {
 public:
  explicit reframe_cuda(reframe_settings settings)
      : settings_{std::move(settings)}, multiprocessors_{multiprocessor_count()} {}

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
    reframe_split split;
    split.copies = divide_up(pitch, words_a_block);
    split.keeps = keep_parts(history.length, history.channels);
    split.items = extent.frames * (split.copies + split.keeps);
    return launch(stream, grid_of(split.items, resident_blocks(multiprocessors_)), dim3(block_threads),
                  &reframe_words<Word>, history, split, settings_.length, pitch, static_cast<Word*>(arguments.output));
  }

  const reframe_settings settings_;
  const std::int64_t multiprocessors_;
};

}  // namespace

std::unique_ptr<operation> make_reframe_cuda(const operation_request& request) {
  return std::make_unique<reframe_cuda>(parse_reframe(request.settings, request.inputs[0]));
}

}  // namespace penstock

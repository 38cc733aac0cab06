#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/reframe.hpp"
#include "kernels/session.cuh"

namespace penstock {
namespace {

/// What of reframe_settings the kernel needs.
struct row_grid {
  std::int64_t length;
  step_rate rate;
};

/// Copies elements first … first + count − 1 of the rows that a frame completes. All threads of the block call it.
template <class Word>
__device__ __forceinline__ void copy_rows(const session_history<Word>& history, std::int32_t index,
                                          const row_grid& rows, std::int64_t start, std::int64_t first, int count,
                                          Word* __restrict__ destination) {
  const std::int64_t row_elements = rows.length * history.channels;
  const std::int64_t hop_elements = rows.rate.divisor * history.channels;
  const std::int64_t first_row = first / row_elements;
  const std::int64_t first_place = first - first_row * row_elements;
  const std::int64_t source = start * history.channels + first_row * hop_elements;
  const bool narrow = first_place + count <= 0x7FFF'FFFF;  // a division of 32 bits is several times as fast
#pragma unroll 4
  for (int element = static_cast<int>(threadIdx.x); element < count; element += static_cast<int>(blockDim.x)) {
    const std::int64_t place = first_place + element;
    const std::int64_t row = narrow && row_elements <= 0x7FFF'FFFF
                                 ? static_cast<unsigned>(place) / static_cast<unsigned>(row_elements)
                                 : place / row_elements;
    destination[element] = history.at_element(index, source + row * hop_elements + (place - row * row_elements));
  }
}

/// A step is `history.channels` words. For each frame, all blocks of a row of the grid write rows, and the first
/// `keeps` of them write the state of its session.
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
      if (rows.rate.divisor == rows.length) {
        copy_elements(history, index, start * history.channels + first, static_cast<int>(count), destination);
      } else {
        copy_rows(history, index, rows, start, first, static_cast<int>(count), destination);
      }
    }
    if (part < keeps) {
      keep_part(history, index, part, keeps);
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
    const int threads = threads_for(divide_up(pitch, elements_at_once));
    const std::int64_t keeps = keep_parts(history.length, history.channels);
    const std::int64_t parts = std::max(divide_up(pitch, std::int64_t{elements_at_once} * threads), keeps);
    const dim3 grid(static_cast<unsigned>(parts),
                    static_cast<unsigned>(std::min<std::int64_t>(extent.frames, max_grid_rows)));
    return launch(stream, grid, dim3(threads), &reframe_words<Word>, history, extent.frames, keeps,
                  row_grid{settings_.length, settings_.rate()}, pitch, static_cast<Word*>(arguments.output));
  }

  const reframe_settings settings_;
};

}  // namespace

std::unique_ptr<operation> make_reframe_cuda(const operation_request& request) {
  return std::make_unique<reframe_cuda>(parse_reframe(request.settings, request.inputs[0]));
}

}  // namespace penstock

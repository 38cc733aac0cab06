#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>

#include "kernels/launch.cuh"
#include "kernels/pack.cuh"
#include "kernels/transpose.hpp"

namespace penstock {
namespace {

/// In the order of the target, one element a thread.
template <class Word, class Index>
__global__ void __launch_bounds__(block_threads)
    gather_elements(const Word* __restrict__ from, Word* __restrict__ to, const __grid_constant__ transposition copy,
                    std::int64_t count) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * block_threads;
  for (std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * block_threads + threadIdx.x; at < count;
       at += stride) {
    auto left = static_cast<Index>(at);
    std::int64_t source = 0;
    for (auto axis = static_cast<int>(copy.count); axis-- > 1;) {
      const auto size = static_cast<Index>(copy.dimensions[axis].size);
      const Index next = left / size;
      source += static_cast<std::int64_t>(left - next * size) * copy.dimensions[axis].from_stride;
      left = next;
    }
    to[at] = from[source + static_cast<std::int64_t>(left) * copy.dimensions[0].from_stride];
  }
}

/// Elements of a tile of the last axis of the source by the last of the target.
constexpr int tile_elements = 2048;

/// Tiles go through shared memory. They are square, or as narrow as the shorter of the axes.
struct tile_grid {
  int columns = 0;  ///< the axis along which the source's elements lie together
  int width = 0;    ///< elements of a tile along it, a power of two
  int height = 0;
  std::int64_t tiles_across = 0;
  std::int64_t tiles_down = 0;
  std::int64_t tiles = 0;  ///< of all
};

template <class Word, class Index>
__global__ void __launch_bounds__(block_threads)
    turn_tiles(const Word* __restrict__ from, Word* __restrict__ to, const __grid_constant__ transposition copy,
               tile_grid grid) {
  __shared__ Word tile[tile_elements + tile_elements / 2];  // a row has one more, so that columns lie in all banks
  const int rows = static_cast<int>(copy.count) - 1;
  const auto row_stride = static_cast<Index>(copy.dimensions[rows].from_stride);
  const auto column_stride = static_cast<Index>(copy.dimensions[grid.columns].to_stride);
  const auto tiles_across = static_cast<Index>(grid.tiles_across);
  const auto tiles_down = static_cast<Index>(grid.tiles_down);
  const int pitch = grid.width + 1;
  const int width_bits = __ffs(grid.width) - 1;
  const int height_bits = __ffs(grid.height) - 1;
  for (std::int64_t at = blockIdx.x; at < grid.tiles; at += gridDim.x) {
    const Index line = static_cast<Index>(at) / tiles_across;
    const Index column = (static_cast<Index>(at) - line * tiles_across) * static_cast<Index>(grid.width);
    Index left = line / tiles_down;
    const Index row = (line - left * tiles_down) * static_cast<Index>(grid.height);
    Index source = row * row_stride + column;
    Index target = column * column_stride + row;
    for (int axis = rows; axis-- > 0;) {
      if (axis != grid.columns) {
        const auto size = static_cast<Index>(copy.dimensions[axis].size);
        const Index next = left / size;
        const Index index = left - next * size;
        source += index * static_cast<Index>(copy.dimensions[axis].from_stride);
        target += index * static_cast<Index>(copy.dimensions[axis].to_stride);
        left = next;
      }
    }
    const auto height = static_cast<int>(
        min(copy.dimensions[rows].size - static_cast<std::int64_t>(row), static_cast<std::int64_t>(grid.height)));
    const auto width = static_cast<int>(min(copy.dimensions[grid.columns].size - static_cast<std::int64_t>(column),
                                            static_cast<std::int64_t>(grid.width)));
#pragma unroll
    for (int each = 0; each < tile_elements; each += block_threads) {
      const int element = each + static_cast<int>(threadIdx.x);
      const int down = element >> width_bits;
      const int across = element & (grid.width - 1);
      if (down < height && across < width) {
        tile[down * pitch + across] = from[source + static_cast<Index>(down) * row_stride + static_cast<Index>(across)];
      }
    }
    __syncthreads();
#pragma unroll
    for (int each = 0; each < tile_elements; each += block_threads) {
      const int element = each + static_cast<int>(threadIdx.x);
      const int across = element >> height_bits;
      const int down = element & (grid.height - 1);
      if (down < height && across < width) {
        to[target + static_cast<Index>(across) * column_stride + static_cast<Index>(down)] =
            tile[down * pitch + across];
      }
    }
    __syncthreads();
  }
}

/// Up to so many elements are counted in 32 bits: a division then takes a fraction of the time.
constexpr std::int64_t most_32_bits = std::int64_t{1} << 31;

template <class Word>
fault gather(void* stream, std::int64_t multiprocessors, const void* from, void* to, const transposition& copy,
             std::int64_t count) noexcept {
  auto* const kernel =
      count < most_32_bits ? &gather_elements<Word, std::uint32_t> : &gather_elements<Word, std::uint64_t>;
  return launch(stream, grid_of(divide_up(count, block_threads), most_blocks(multiprocessors)), dim3(block_threads),
                kernel, static_cast<const Word*>(from), static_cast<Word*>(to), copy, count);
}

/// In the order of the target. Runs that lie together on both sides go as words of up to 16 bytes.
fault gather_runs(void* stream, std::int64_t multiprocessors, const void* from, void* to, transposition copy,
                  std::size_t element) noexcept {
  transposition::dimension& last = copy.dimensions[copy.count - 1];
  std::size_t word = element;
  if (last.from_stride == 1) {
    word = std::gcd(std::size_t{16}, static_cast<std::size_t>(last.size) * element);
    word = std::gcd(word, static_cast<std::size_t>(reinterpret_cast<std::uintptr_t>(from)));
    for (std::size_t at = 0; at + 1 < copy.count; ++at) {
      word = std::gcd(word, static_cast<std::size_t>(copy.dimensions[at].from_stride) * element);
    }
  }
  const auto ratio = static_cast<std::int64_t>(word / element);
  for (std::size_t at = 0; ratio > 1 && at + 1 < copy.count; ++at) {
    copy.dimensions[at].from_stride /= ratio;
  }
  last.size /= ratio;
  const std::int64_t count = copy.elements();
  switch (word) {
    case 1:
      return gather<machine_word<1>::type>(stream, multiprocessors, from, to, copy, count);
    case 2:
      return gather<machine_word<2>::type>(stream, multiprocessors, from, to, copy, count);
    case 4:
      return gather<machine_word<4>::type>(stream, multiprocessors, from, to, copy, count);
    case 8:
      return gather<machine_word<8>::type>(stream, multiprocessors, from, to, copy, count);
    default:
      return gather<machine_word<16>::type>(stream, multiprocessors, from, to, copy, count);
  }
}

template <class Word>
fault turn(void* stream, std::int64_t multiprocessors, const void* from, void* to, const transposition& copy,
           std::size_t columns) noexcept {
  const transposition::dimension& across = copy.dimensions[columns];
  const transposition::dimension& down = copy.dimensions[copy.count - 1];
  const std::int64_t count = copy.elements();
  if (across.size < 2 || down.size < 2) {
    return gather<Word>(stream, multiprocessors, from, to, copy, count);
  }
  constexpr int side = 32;
  tile_grid grid{.columns = static_cast<int>(columns)};
  grid.width = across.size < side ? power_of_two(across.size, side) : tile_elements / power_of_two(down.size, side);
  grid.height = tile_elements / grid.width;
  grid.tiles_across = divide_up(across.size, grid.width);
  grid.tiles_down = divide_up(down.size, grid.height);
  grid.tiles = count / (across.size * down.size) * grid.tiles_across * grid.tiles_down;
  std::int64_t reach = count;
  for (std::size_t at = 0; at < copy.count; ++at) {
    reach += copy.dimensions[at].size * copy.dimensions[at].from_stride;
  }
  auto* const kernel = reach < most_32_bits ? &turn_tiles<Word, std::uint32_t> : &turn_tiles<Word, std::uint64_t>;
  return launch(stream, grid_of(grid.tiles, most_blocks(multiprocessors)), dim3(block_threads), kernel,
                static_cast<const Word*>(from), static_cast<Word*>(to), copy, grid);
}

class transpose_cuda final : public operation {
 public:
  explicit transpose_cuda(transpose_settings settings)
      : settings_{std::move(settings)}, multiprocessors_{multiprocessor_count()} {}

  fault run(void* stream, const operation_arguments& arguments) noexcept override {
    return enqueue_transpose(stream, multiprocessors_, arguments.inputs[0], arguments.output,
                             settings_.copy(arguments.extent), size_of(settings_.input.type));
  }

 private:
  const transpose_settings settings_;
  const std::int64_t multiprocessors_;
};

}  // namespace

fault enqueue_transpose(void* stream, std::int64_t multiprocessors, const void* from, void* to,
                        const transposition& copy, std::size_t element) noexcept {
  if (copy.elements() <= 0) {
    return {};
  }
  transposition made = copy;
  if (made.count == 0) {
    made.dimensions[made.count++] = {1, 1, 1};
  }
  std::size_t columns = made.count - 1;
  for (std::size_t at = 0; at < made.count; ++at) {
    columns = made.dimensions[at].from_stride == 1 ? at : columns;
  }
  if (columns == made.count - 1) {
    return gather_runs(stream, multiprocessors, from, to, made, element);
  }
  switch (element) {
    case 1:
      return turn<machine_word<1>::type>(stream, multiprocessors, from, to, made, columns);
    case 2:
      return turn<machine_word<2>::type>(stream, multiprocessors, from, to, made, columns);
    case 4:
      return turn<machine_word<4>::type>(stream, multiprocessors, from, to, made, columns);
    default:
      return turn<machine_word<8>::type>(stream, multiprocessors, from, to, made, columns);
  }
}

std::unique_ptr<operation> make_transpose_cuda(const operation_request& request) {
  return std::make_unique<transpose_cuda>(parse_transpose(request.settings, request.inputs[0]));
}

}  // namespace penstock

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>

#include "kernels/launch.cuh"
#include "kernels/pack.cuh"
#include "kernels/waves.hpp"

namespace penstock {
namespace {

// As many as a kernel's parameters hold: so the list needs no copy of its own to the device.
constexpr std::size_t rows_of_launch = 448;

struct row_list {
  row_copy row[rows_of_launch];
};
static_assert(sizeof(row_list) + 64 <= max_argument_bytes);

/// One row a block in y, its words along x.
template <class Word>
__global__ void __launch_bounds__(block_threads)
    copy_words(const row_list rows, Word* to, const Word* from, std::int64_t to_pitch, std::int64_t from_pitch,
               std::int64_t words) {
  const row_copy row = rows.row[blockIdx.y];
  Word* const target = to + row.to * to_pitch;
  const Word* const source = from + row.from * from_pitch;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * block_threads;
  for (std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * block_threads + threadIdx.x; at < words;
       at += stride) {
    target[at] = row.from < 0 ? Word{} : source[at];
  }
}

template <std::size_t Bytes>
fault copy_rows_of(void* stream, row_table to, row_table from, std::size_t bytes,
                   std::span<const row_copy> rows) noexcept {
  using word = typename machine_word<Bytes>::type;
  const auto words = static_cast<std::int64_t>(bytes / Bytes);
  row_list list;
  while (!rows.empty()) {
    const std::size_t count = std::min(rows.size(), rows_of_launch);
    std::copy_n(rows.begin(), count, list.row);
    const dim3 grid(static_cast<unsigned>(std::clamp<std::int64_t>(divide_up(words, block_threads), 1, 64)),
                    static_cast<unsigned>(count));
    if (const fault failed =
            launch(stream, grid, dim3(static_cast<unsigned>(threads_for(words))), &copy_words<word>, list,
                   reinterpret_cast<word*>(to.first), reinterpret_cast<const word*>(from.first),
                   static_cast<std::int64_t>(to.pitch / Bytes), static_cast<std::int64_t>(from.pitch / Bytes), words)) {
      return failed;
    }
    rows = rows.subspan(count);
  }
  return {};
}

/// By the widest machine word that divides rows and distances.
fault copy_rows_cuda(void* stream, row_table to, row_table from, std::size_t bytes,
                     std::span<const row_copy> rows) noexcept {
  switch (std::gcd(std::gcd(std::size_t{16}, bytes), std::gcd(to.pitch, from.pitch))) {
    case 16:
      return copy_rows_of<16>(stream, to, from, bytes, rows);
    case 8:
      return copy_rows_of<8>(stream, to, from, bytes, rows);
    case 4:
      return copy_rows_of<4>(stream, to, from, bytes, rows);
    case 2:
      return copy_rows_of<2>(stream, to, from, bytes, rows);
    default:
      return copy_rows_of<1>(stream, to, from, bytes, rows);
  }
}

}  // namespace

std::unique_ptr<operation> make_waves_cuda(std::unique_ptr<operation> step, wave_layout layout) {
  return make_waves(std::move(step), std::move(layout), copy_rows_cuda, /*keeps_book=*/true);
}

}  // namespace penstock

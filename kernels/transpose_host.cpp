#include "kernels/transpose.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "kernels/function_attributes.hpp"

namespace penstock {
namespace {

/// Transposes 8 by 8 elements; pitches are in elements.
[[gnu::always_inline]] inline void turn_eight(const std::uint32_t* from, std::int64_t from_pitch, std::uint32_t* to,
                                              std::int64_t to_pitch) noexcept {
  using eight = std::uint32_t __attribute__((vector_size(32)));
  eight rows[8];
  for (int row = 0; row < 8; ++row) {
    std::memcpy(&rows[row], from + row * from_pitch, sizeof(eight));
  }
  eight pairs[8];  // of neighbouring rows: element 0 of both, element 1 of both, ... in each half
  for (int row = 0; row < 8; row += 2) {
    pairs[row] = __builtin_shufflevector(rows[row], rows[row + 1], 0, 8, 1, 9, 4, 12, 5, 13);
    pairs[row + 1] = __builtin_shufflevector(rows[row], rows[row + 1], 2, 10, 3, 11, 6, 14, 7, 15);
  }
  eight fours[8];
  for (int row = 0; row < 8; row += 4) {
    for (int part = 0; part < 2; ++part) {
      const eight& upper = pairs[row + part];
      const eight& lower = pairs[row + part + 2];
      fours[row + 2 * part] = __builtin_shufflevector(upper, lower, 0, 1, 8, 9, 4, 5, 12, 13);
      fours[row + 2 * part + 1] = __builtin_shufflevector(upper, lower, 2, 3, 10, 11, 6, 7, 14, 15);
    }
  }
  for (int column = 0; column < 4; ++column) {
    const eight& upper = fours[column];
    const eight& lower = fours[column + 4];
    const eight first = __builtin_shufflevector(upper, lower, 0, 1, 2, 3, 8, 9, 10, 11);
    const eight second = __builtin_shufflevector(upper, lower, 4, 5, 6, 7, 12, 13, 14, 15);
    std::memcpy(to + column * to_pitch, &first, sizeof(eight));
    std::memcpy(to + (column + 4) * to_pitch, &second, sizeof(eight));
  }
}

/// A whole tile: rows lie together in the source, columns in the target.
template <std::size_t Rows, std::size_t Columns, class Word>
[[gnu::always_inline]] inline void turn_tile(const Word* __restrict from, std::int64_t from_pitch, Word* __restrict to,
                                             std::int64_t to_pitch) noexcept {
  if constexpr (sizeof(Word) == 4) {
    for (std::size_t column = 0; column < Columns; column += 8) {
      for (std::size_t row = 0; row < Rows; row += 8) {
        turn_eight(from + static_cast<std::int64_t>(row) * from_pitch + column, from_pitch,
                   to + static_cast<std::int64_t>(column) * to_pitch + row, to_pitch);
      }
    }
    return;
  }
  Word block[Rows][Columns];
  for (std::size_t row = 0; row < Rows; ++row) {
    std::memcpy(block[row], from + static_cast<std::int64_t>(row) * from_pitch, sizeof block[row]);
  }
  for (std::size_t column = 0; column < Columns; ++column) {
    Word line[Rows];
    for (std::size_t row = 0; row < Rows; ++row) {
      line[row] = block[row][column];
    }
    std::memcpy(to + static_cast<std::int64_t>(column) * to_pitch, line, sizeof line);
  }
}

template <std::size_t Rows, std::size_t Columns, class Word>
[[gnu::always_inline]] inline void turn_by_tiles(const Word* __restrict from, std::int64_t from_pitch,
                                                 Word* __restrict to, std::int64_t to_pitch, std::int64_t rows,
                                                 std::int64_t columns) noexcept {
  constexpr auto down = static_cast<std::int64_t>(Rows);
  constexpr auto across = static_cast<std::int64_t>(Columns);
  for (std::int64_t row = 0; row < rows; row += down) {
    const std::int64_t last_row = std::min(row + down, rows);
    for (std::int64_t column = 0; column < columns; column += across) {
      const std::int64_t last_column = std::min(column + across, columns);
      if (last_row - row == down && last_column - column == across) {
        turn_tile<Rows, Columns>(from + row * from_pitch + column, from_pitch, to + column * to_pitch + row, to_pitch);
        continue;
      }
      for (std::int64_t c = column; c < last_column; ++c) {
        for (std::int64_t r = row; r < last_row; ++r) {
          to[c * to_pitch + r] = from[r * from_pitch + c];
        }
      }
    }
  }
}

/// `rows` of `columns` elements, which lie together, to `columns` of `rows`. A tile is a cache line wide on both sides,
/// or half of one where there are few rows or columns.
template <class Word>
[[gnu::always_inline]] inline void turn(const Word* __restrict from, std::int64_t from_pitch, Word* __restrict to,
                                        std::int64_t to_pitch, std::int64_t rows, std::int64_t columns) noexcept {
  constexpr std::size_t side = sizeof(Word) == 8 ? 8 : 16;
  if (columns == 1 && from_pitch == 2) {
    for (std::int64_t row = 0; row < rows; ++row) {
      to[row] = from[2 * row];
    }
  } else if (columns == 1) {
    for (std::int64_t row = 0; row < rows; ++row) {
      to[row] = from[row * from_pitch];
    }
  } else if (columns < static_cast<std::int64_t>(side)) {
    turn_by_tiles<side, side / 2>(from, from_pitch, to, to_pitch, rows, columns);
  } else if (rows < static_cast<std::int64_t>(side)) {
    turn_by_tiles<side / 2, side>(from, from_pitch, to, to_pitch, rows, columns);
  } else {
    turn_by_tiles<side, side>(from, from_pitch, to, to_pitch, rows, columns);
  }
}

PENSTOCK_VECTOR_CLONES void turn_bytes(const void* from, std::int64_t from_pitch, void* to, std::int64_t to_pitch,
                                       std::int64_t rows, std::int64_t columns, std::size_t element) {
  switch (element) {
    case 1:
      return turn(static_cast<const std::uint8_t*>(from), from_pitch, static_cast<std::uint8_t*>(to), to_pitch, rows,
                  columns);
    case 2:
      return turn(static_cast<const std::uint16_t*>(from), from_pitch, static_cast<std::uint16_t*>(to), to_pitch, rows,
                  columns);
    case 4:
      return turn(static_cast<const std::uint32_t*>(from), from_pitch, static_cast<std::uint32_t*>(to), to_pitch, rows,
                  columns);
    default:
      return turn(static_cast<const std::uint64_t*>(from), from_pitch, static_cast<std::uint64_t*>(to), to_pitch, rows,
                  columns);
  }
}

class transpose_host final : public operation {
 public:
  explicit transpose_host(transpose_settings settings) : settings_{std::move(settings)} {}

  fault run(void* /*stream*/, const operation_arguments& arguments) noexcept override {
    transpose(arguments.inputs[0], arguments.output, settings_.copy(arguments.extent), size_of(settings_.input.type));
    return {};
  }

 private:
  const transpose_settings settings_;
};

}  // namespace

void transpose(const void* from, void* to, const transposition& copy, std::size_t element) noexcept {
  const auto* const source = static_cast<const std::byte*>(from);
  auto* const target = static_cast<std::byte*>(to);
  if (copy.elements() <= 0) {
    return;
  }
  if (copy.count == 0) {
    std::memcpy(to, from, element);
    return;
  }
  // The last axis, and the one along which the source's elements lie together, are gone through at once.
  const std::size_t last = copy.count - 1;
  std::size_t first_of_source = last;
  for (std::size_t at = 0; at < copy.count; ++at) {
    first_of_source = copy.dimensions[at].from_stride == 1 ? at : first_of_source;
  }
  const auto bytes = static_cast<std::int64_t>(element);
  std::array<std::int64_t, transposition::most_axes> place{};
  std::int64_t from_offset = 0;
  std::int64_t to_offset = 0;
  for (;;) {
    const transposition::dimension& rows = copy.dimensions[last];
    const transposition::dimension& columns = copy.dimensions[first_of_source];
    if (first_of_source == last && rows.from_stride != 1) {
      turn_bytes(source + from_offset * bytes, rows.from_stride, target + to_offset * bytes, 0, rows.size, 1, element);
    } else if (first_of_source == last) {
      std::memcpy(target + to_offset * bytes, source + from_offset * bytes,
                  static_cast<std::size_t>(rows.size) * element);
    } else {
      turn_bytes(source + from_offset * bytes, rows.from_stride, target + to_offset * bytes, columns.to_stride,
                 rows.size, columns.size, element);
    }
    std::size_t at = copy.count;
    while (at-- > 0) {
      if (at == last || at == first_of_source) {
        continue;
      }
      from_offset += copy.dimensions[at].from_stride;
      to_offset += copy.dimensions[at].to_stride;
      if (++place[at] < copy.dimensions[at].size) {
        break;
      }
      from_offset -= copy.dimensions[at].size * copy.dimensions[at].from_stride;
      to_offset -= copy.dimensions[at].size * copy.dimensions[at].to_stride;
      place[at] = 0;
    }
    if (at == static_cast<std::size_t>(-1)) {
      return;
    }
  }
}

std::unique_ptr<operation> make_transpose_host(const operation_request& request) {
  return std::make_unique<transpose_host>(parse_transpose(request.settings, request.inputs[0]));
}

}  // namespace penstock

#include "kernels/row_fft_host.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <numbers>

#include "kernels/function_attributes.hpp"

namespace penstock {
namespace {

/// FFTW is faster for shorter rows.
constexpr std::size_t least_length = std::size_t{1} << 19;
/// Columns, or rows, that are transformed at once: their elements of one place fill a cache line.
constexpr std::size_t lanes = 8;
constexpr std::size_t tile_values = lanes * lanes;
/// Longest side of the matrix: `lanes` columns or rows of it fit a core's cache.
constexpr std::size_t most_of_side = std::size_t{1} << 13;

/// Rows of a matrix that is nearly square, whose two sides are multiples of `lanes`; 0 if there is none.
std::size_t rows_for(std::size_t length) noexcept {
  if (length < least_length) {
    return 0;
  }
  const auto root = static_cast<std::size_t>(std::sqrt(static_cast<double>(length)));
  for (std::size_t rows = root / lanes * lanes; rows > 0 && length / rows <= most_of_side; rows -= lanes) {
    if (length % (rows * lanes) == 0) {
      return rows;
    }
  }
  return 0;
}

/// exp(∓2πi · k · n / length) of each k for `lanes` neighbours n, and then for the next ones.
void fill_twiddles(float* twiddles, std::size_t rows, std::size_t columns, double sign) {
  const auto length = static_cast<double>(rows * columns);
  for (std::size_t first = 0; first < columns; first += lanes) {
    for (std::size_t k = 0; k < rows; ++k) {
      for (std::size_t n = first; n < first + lanes; ++n, twiddles += 2) {
        const auto factor = std::polar(1.0, sign * 2.0 * std::numbers::pi * static_cast<double>(k * n) / length);
        twiddles[0] = static_cast<float>(factor.real());
        twiddles[1] = static_cast<float>(factor.imag());
      }
    }
  }
}

/// Multiplies `tiles` of `lanes` rows of complex numbers by as many factors, and writes each transposed; the results
/// lie `out_step` floats apart.
PENSTOCK_VECTOR_CLONES void twiddle_and_transpose(const float* __restrict values, const float* __restrict twiddles,
                                                  std::size_t tiles, float* __restrict out, std::size_t out_step) {
  for (std::size_t tile = 0; tile < tiles; ++tile) {
    float products[2 * tile_values];
    for (std::size_t i = 0; i < tile_values; ++i) {
      products[2 * i] = values[2 * i] * twiddles[2 * i] - values[2 * i + 1] * twiddles[2 * i + 1];
      products[2 * i + 1] = values[2 * i] * twiddles[2 * i + 1] + values[2 * i + 1] * twiddles[2 * i];
    }
    for (std::size_t column = 0; column < lanes; ++column) {
      for (std::size_t row = 0; row < lanes; ++row) {
        std::memcpy(out + 2 * (column * lanes + row), products + 2 * (row * lanes + column), 2 * sizeof(float));
      }
    }
    values += 2 * tile_values;
    twiddles += 2 * tile_values;
    out += out_step;
  }
}

/// Copies `count` cache lines.
void copy_lines(const float* from, std::size_t from_step, float* to, std::size_t to_step, std::size_t count) noexcept {
  for (std::size_t line = 0; line < count; ++line, from += from_step, to += to_step) {
    std::memcpy(to, from, 2 * lanes * sizeof(float));
  }
}

}  // namespace

row_fft::matrix::matrix(std::size_t row_count, std::size_t column_count, fft_plan::kind transform)
    : rows{row_count},
      columns{column_count},
      down{static_cast<std::int64_t>(rows), transform, fft_plan::input::overwritten, lanes},
      across{static_cast<std::int64_t>(columns), transform, fft_plan::input::overwritten, lanes},
      twiddles{2 * rows * columns} {
  fill_twiddles(twiddles.data(), rows, columns, transform == fft_plan::kind::complex ? -1.0 : 1.0);
}

row_fft::row_fft(std::int64_t length, fft_plan::kind transform, fft_plan::input after) {
  const bool complex = transform == fft_plan::kind::complex || transform == fft_plan::kind::complex_inverse;
  const std::size_t rows = complex ? rows_for(static_cast<std::size_t>(length)) : 0;
  if (rows == 0) {
    whole_.emplace(length, transform, after);
  } else {
    matrix_.emplace(rows, static_cast<std::size_t>(length) / rows, transform);
  }
}

std::size_t row_fft::scratch_space() const noexcept {
  return matrix_ ? 2 * matrix_->rows * matrix_->columns + 2 * 2 * lanes * std::max(matrix_->rows, matrix_->columns) : 0;
}

void row_fft::execute(float* in, float* out, float* scratch) const noexcept {
  if (!matrix_) {
    whole_->execute(in, out);
    return;
  }
  const std::size_t rows = matrix_->rows;
  const std::size_t columns = matrix_->columns;
  float* const transposed = scratch;
  float* const before = transposed + 2 * rows * columns;
  float* const behind = before + 2 * lanes * std::max(rows, columns);
  for (std::size_t first = 0; first < columns; first += lanes) {
    copy_lines(in + 2 * first, 2 * columns, before, 2 * lanes, rows);
    matrix_->down.execute(before, behind);
    twiddle_and_transpose(behind, matrix_->twiddles.data() + 2 * first * rows, rows / lanes,
                          transposed + 2 * lanes * first, 2 * lanes * columns);
  }
  for (std::size_t first = 0; first < rows; first += lanes) {
    matrix_->across.execute(transposed + 2 * first * columns, behind);
    copy_lines(behind, 2 * lanes, out + 2 * first, 2 * rows, columns);
  }
}

}  // namespace penstock

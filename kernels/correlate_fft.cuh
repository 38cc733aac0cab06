#pragma once

#include <cstdint>

#include "kernels/launch.cuh"

namespace penstock {

// Only forward transforms are used, as on the host (fft_host.cpp): complex rows by conjugates, real rows by the Hartley
// transform. So there are two kinds of cuFFT transforms only, complex, and real to complex of even lengths, both of
// which are known to keep their rows apart (docs/decisions/0016-operator-results.md).

/// Rows cut into blocks: block `at` of the batch is block at % blocks of row at / blocks.
struct block_rows {
  std::int64_t length;  ///< elements of a row
  std::int64_t start;   ///< of a row's first block, relative to the row
  std::int64_t step;
  std::int64_t blocks;  ///< of a row
};

__device__ __forceinline__ void place(float value, float* destination) {
  *destination = value;
}
__device__ __forceinline__ void place(float value, float2* destination) {
  *destination = make_float2(value, 0.0F);
}
__device__ __forceinline__ void place(float2 value, float2* destination) {
  *destination = value;
}
__device__ __forceinline__ void place_zero(float* destination) {
  *destination = 0.0F;
}
__device__ __forceinline__ void place_zero(float2* destination) {
  *destination = make_float2(0.0F, 0.0F);
}

// A transform rounds by about 1e-7 of the level of its block, while a result must be within 1e-6 of the samples that it
// sees (as on the host, fft_host.hpp). So each block is measured first: the peak of each of its pieces. A result is
// summed directly when it is stored if none of its pieces has a peak near the level of the block, or one has a NaN or
// an infinity. Blocks and templates near the ends of the range of f32 are scaled by a power of two.

/// A span whose peak is at least 1/8 of the level of its block has a result that the transform gives accurately enough.
inline constexpr float max_level_per_peak = 8.0F;
/// Samples are scaled if the exponent of their peak is beyond this, templates beyond the smaller limit.
inline constexpr int max_exponent = 30;
inline constexpr int max_template_exponent = 20;

/// The peak of a piece: the bits of its largest finite magnitude, with this bit set if something in it is not finite.
inline constexpr std::uint32_t not_finite = 0x80000000U;
inline constexpr std::uint32_t infinity_bits = 0x7f800000U;

/// Samples of a piece: few enough for each span of `taps` to hold several whole pieces.
[[nodiscard]] constexpr std::int64_t piece_for(std::int64_t taps) noexcept {
  std::int64_t piece = 1;
  while (8 * piece <= taps) {
    piece *= 2;
  }
  return piece;
}

__device__ __forceinline__ std::uint32_t peak_of(float value) {
  const std::uint32_t magnitude = __float_as_uint(value) & 0x7fffffffU;
  return magnitude < infinity_bits ? magnitude : not_finite;
}
__device__ __forceinline__ std::uint32_t joined_peaks(std::uint32_t a, std::uint32_t b) {
  return max(a & ~not_finite, b & ~not_finite) | ((a | b) & not_finite);
}
__device__ __forceinline__ std::uint32_t peak_of(float2 value) {
  return joined_peaks(peak_of(value.x), peak_of(value.y));
}

__device__ __forceinline__ float where_finite(float value) {
  return peak_of(value) == not_finite ? 0.0F : value;
}
__device__ __forceinline__ float2 where_finite(float2 value) {
  return (peak_of(value) & not_finite) != 0 ? make_float2(0.0F, 0.0F) : value;
}

/// Scales by a power of two, in two steps, since the factor may not fit in f32.
__device__ __forceinline__ float scaled(float value, int exponent) {
  return exponent == 0 ? value : scalbnf(scalbnf(value, exponent / 2), exponent - exponent / 2);
}
__device__ __forceinline__ float2 scaled(float2 value, int exponent) {
  return make_float2(scaled(value.x, exponent), scaled(value.y, exponent));
}

/// The power of two by which a block of that peak is divided.
__device__ __forceinline__ int exponent_for(std::uint32_t peak, int most) {
  const std::uint32_t magnitude = peak & ~not_finite;
  const int own = magnitude == 0 ? 0 : static_cast<int>(magnitude >> 23) - 126;
  return abs(own) > most ? own : 0;
}

// In the kernels below, y of the grid counts the blocks of a pass, and x the elements of a block.

/// Calls visit(place) for the places of this thread among `count`.
template <class Visit>
__device__ __forceinline__ void visit_along_x(std::int64_t count, Visit visit) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * block_threads;
  for (std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * block_threads + threadIdx.x; at < count;
       at += stride) {
    visit(at);
  }
}

/// The peaks of the pieces of blocks; `peaks` holds `pieces` of each block of the pass.
struct block_pieces {
  std::uint32_t* peaks;
  std::int64_t pieces;
  std::int64_t piece;  ///< samples
};

/// The peaks of the pieces of `count` blocks from first_block on, `transform` samples each. A team of threads takes a
/// piece.
template <int Team, class In>
__global__ void __launch_bounds__(block_threads)
    measure_blocks(const In* __restrict__ input, block_rows rows, std::int64_t first_block, std::int64_t transform,
                   block_pieces measured, std::int64_t count) {
  __shared__ std::uint32_t warp_peaks[block_warps];
  constexpr int teams = block_threads / Team;
  const int team = static_cast<int>(threadIdx.x) / Team;
  const int member = static_cast<int>(threadIdx.x) % Team;
  for (std::int64_t pass_block = blockIdx.y; pass_block < count; pass_block += gridDim.y) {
    const std::int64_t row = (first_block + pass_block) / rows.blocks;
    const std::int64_t block = first_block + pass_block - row * rows.blocks;
    const std::int64_t first = rows.start + block * rows.step;
    for (std::int64_t base = static_cast<std::int64_t>(blockIdx.x) * teams; base < measured.pieces;
         base += static_cast<std::int64_t>(gridDim.x) * teams) {
      const std::int64_t piece = base + team;
      const std::int64_t begin = max(first + piece * measured.piece, static_cast<std::int64_t>(0));
      const std::int64_t end =
          piece < measured.pieces ? min(first + min((piece + 1) * measured.piece, transform), rows.length) : begin;
      std::uint32_t peak = 0;
      for (std::int64_t at = begin + member; at < end; at += Team) {
        peak = joined_peaks(peak, peak_of(input[row * rows.length + at]));
      }
#pragma unroll
      for (int apart = warp_threads / 2; apart > 0; apart /= 2) {
        peak = joined_peaks(peak, __shfl_xor_sync(0xffffffffU, peak, apart));
      }
      if constexpr (Team > warp_threads) {
        if (threadIdx.x % warp_threads == 0) {
          warp_peaks[threadIdx.x / warp_threads] = peak;
        }
        __syncthreads();
        for (int warp = 0; warp < block_warps; ++warp) {
          peak = joined_peaks(peak, warp_peaks[warp]);
        }
        __syncthreads();
      }
      if (member == 0 && piece < measured.pieces) {
        measured.peaks[pass_block * measured.pieces + piece] = peak;
      }
    }
  }
}

/// Summary of the peaks of a block. All threads of the block call measure_of together.
struct block_measure {
  std::uint32_t highest;  ///< finite
  std::uint32_t least;    ///< minimum peak of the span of a result that comes from the transform
  bool whole;             ///< all results with spans inside the row come from the transform
};
/// The row fills the pieces from first_filled to before last_filled.
__device__ __forceinline__ block_measure measure_of(const std::uint32_t* __restrict__ peaks, std::int64_t pieces,
                                                    std::int64_t first_filled, std::int64_t last_filled) {
  __shared__ std::uint32_t warp_highest[block_warps];
  __shared__ std::uint32_t warp_lowest[block_warps];
  __shared__ float warp_squares[block_warps];
  const int thread = static_cast<int>(threadIdx.x);
  std::uint32_t highest = 0;
  std::uint32_t lowest = infinity_bits;
  for (std::int64_t at = thread; at < pieces; at += block_threads) {
    highest = joined_peaks(highest, peaks[at]);
    lowest = at >= first_filled && at < last_filled ? min(lowest, peaks[at]) : lowest;
  }
#pragma unroll
  for (int apart = warp_threads / 2; apart > 0; apart /= 2) {
    highest = joined_peaks(highest, __shfl_xor_sync(0xffffffffU, highest, apart));
    lowest = min(lowest, __shfl_xor_sync(0xffffffffU, lowest, apart));
  }
  if (thread % warp_threads == 0) {
    warp_highest[thread / warp_threads] = highest;
    warp_lowest[thread / warp_threads] = lowest;
  }
  __syncthreads();
  for (int warp = 0; warp < block_warps; ++warp) {
    highest = joined_peaks(highest, warp_highest[warp]);
    lowest = min(lowest, warp_lowest[warp]);
  }
  const bool broken = (highest & not_finite) != 0;
  const std::uint32_t top = highest & ~not_finite;
  const int exponent = exponent_for(top, 0);
  float squares = 0.0F;
  for (std::int64_t at = thread; at < pieces; at += block_threads) {
    const float peak = scaled(__uint_as_float(peaks[at] & ~not_finite), -exponent);
    squares += peak * peak;
  }
#pragma unroll
  for (int apart = warp_threads / 2; apart > 0; apart /= 2) {
    squares += __shfl_xor_sync(0xffffffffU, squares, apart);
  }
  if (thread % warp_threads == 0) {
    warp_squares[thread / warp_threads] = squares;
  }
  __syncthreads();
  squares = 0.0F;
  for (int warp = 0; warp < block_warps; ++warp) {
    squares += warp_squares[warp];
  }
  __syncthreads();
  const float level = sqrtf(squares / static_cast<float>(pieces)) / max_level_per_peak;
  const std::uint32_t least = __float_as_uint(scaled(level, exponent));
  return {top, least, !broken && lowest >= least};
}

/// Loads `count` blocks of `transform` samples from first_block on; zero beyond the ends of a row, and for values that
/// are not finite.
template <class In, class Sample>
__global__ void __launch_bounds__(block_threads)
    load_blocks(const In* __restrict__ input, block_rows rows, std::int64_t first_block, std::int64_t transform,
                block_pieces measured, int most, Sample* __restrict__ samples, std::int64_t count) {
  for (std::int64_t pass_block = blockIdx.y; pass_block < count; pass_block += gridDim.y) {
    const std::int64_t row = (first_block + pass_block) / rows.blocks;
    const std::int64_t block = first_block + pass_block - row * rows.blocks;
    const std::int64_t first = rows.start + block * rows.step;
    const int exponent =
        exponent_for(measure_of(measured.peaks + pass_block * measured.pieces, measured.pieces, 0, 0).highest, most);
    visit_along_x(transform, [&](std::int64_t at) {
      const std::int64_t sample = first + at;
      if (sample >= 0 && sample < rows.length) {
        place(scaled(where_finite(input[row * rows.length + sample]), -exponent),
              samples + pass_block * transform + at);
      } else {
        place_zero(samples + pass_block * transform + at);
      }
    });
  }
}

/// Which block and which template a product of the pass is of. Each block meets all templates of `bank`, one product
/// after the other.
struct spectrum_choice {
  std::int64_t first_block;
  std::int64_t blocks_per_template;  ///< or per bank
  std::int64_t first_group;          ///< of blocks that share templates: the one that the spectra begin with
  std::int64_t bank;                 ///< templates of this pass that a block meets
  std::int64_t first_of_bank;        ///< the first of them, in the whole bank
  std::int64_t first_spectrum;       ///< the place of its spectrum

  __device__ std::int64_t block_of(std::int64_t product) const { return product / bank; }
  __device__ std::int64_t group_of(std::int64_t product) const {
    return (first_block + product / bank) / blocks_per_template;
  }
  /// The place of its template's spectrum.
  __device__ std::int64_t spectrum_of(std::int64_t product) const {
    return (group_of(product) - first_group) * bank + first_spectrum + product % bank;
  }
};

/// conj(Z) = conj(X) H / L of each product; of a bank of one it may be in place.
inline __global__ void __launch_bounds__(block_threads)
    multiply_complex(const float2* spectra, const float2* __restrict__ templates, spectrum_choice choice,
                     std::int64_t transform, float scale, float2* products, std::int64_t count) {
  for (std::int64_t product = blockIdx.y; product < count; product += gridDim.y) {
    const float2* const spectrum = spectra + choice.block_of(product) * transform;
    const float2* const template_spectrum = templates + choice.spectrum_of(product) * transform;
    float2* const z = products + product * transform;
    visit_along_x(transform, [&](std::int64_t bin) {
      const float2 x = spectrum[bin];
      const float2 h = template_spectrum[bin];
      z[bin] = make_float2(scale * fmaf(x.x, h.x, x.y * h.y), scale * fmaf(x.x, h.y, -(x.y * h.x)));
    });
  }
}

/// g[k] = Re Z[k] - Im Z[k] and g[L - k] = Re Z[k] + Im Z[k] of Z = X conj(H) / L.
inline __global__ void __launch_bounds__(block_threads)
    multiply_real(const float2* __restrict__ spectra, const float2* __restrict__ templates, spectrum_choice choice,
                  std::int64_t transform, float scale, float* __restrict__ products, std::int64_t count) {
  const std::int64_t bins = transform / 2 + 1;
  for (std::int64_t product = blockIdx.y; product < count; product += gridDim.y) {
    const float2* const spectrum = spectra + choice.block_of(product) * bins;
    const float2* const template_spectrum = templates + choice.spectrum_of(product) * bins;
    float* const g = products + product * transform;
    visit_along_x(bins, [&](std::int64_t bin) {
      const float2 x = spectrum[bin];
      const float2 h = template_spectrum[bin];
      const float re = scale * fmaf(x.x, h.x, x.y * h.y);
      const float im = scale * fmaf(x.y, h.x, -(x.x * h.y));
      g[bin] = re - im;
      if (bin > 0 && bin < bins - 1) {
        g[transform - bin] = re + im;
      }
    });
  }
}

/// The results of a block from what the second transform gave.
__device__ __forceinline__ float2 result_at(const float2* spectrum, std::int64_t at, std::int64_t /*transform*/,
                                            const float2* /*output*/) {
  return make_float2(spectrum[at].x, -spectrum[at].y);
}
__device__ __forceinline__ float result_at(const float2* spectrum, std::int64_t at, std::int64_t transform,
                                           const float* /*output*/) {
  const float2 direct = spectrum[at <= transform / 2 ? at : transform - at];
  return at <= transform / 2 ? direct.x - direct.y : direct.x + direct.y;
}

/// Inputs of the results that are summed directly.
template <class In, class Tap>
struct summed_rows {
  const In* signal;
  const Tap* templates;                 ///< from the batch's first on
  const std::uint32_t* template_peaks;  ///< of those whose spectra are there
  std::int64_t taps;
  std::int64_t bank;  ///< templates that a row meets in all
};

__device__ __forceinline__ void add_term(double2& sum, float x, float h) {
  sum.x += static_cast<double>(x) * static_cast<double>(h);
}
__device__ __forceinline__ void add_term(double2& sum, float2 x, float h) {
  sum.x += static_cast<double>(x.x) * static_cast<double>(h);
  sum.y += static_cast<double>(x.y) * static_cast<double>(h);
}
__device__ __forceinline__ void add_term(double2& sum, float x, float2 h) {
  sum.x += static_cast<double>(x) * static_cast<double>(h.x);
  sum.y -= static_cast<double>(x) * static_cast<double>(h.y);
}
__device__ __forceinline__ void add_term(double2& sum, float2 x, float2 h) {
  sum.x += static_cast<double>(x.x) * static_cast<double>(h.x) + static_cast<double>(x.y) * static_cast<double>(h.y);
  sum.y += static_cast<double>(x.y) * static_cast<double>(h.x) - static_cast<double>(x.x) * static_cast<double>(h.y);
}

/// The result of a row whose first tap meets sample `first`.
template <class In, class Tap>
__device__ __noinline__ double2 summed_result(const In* __restrict__ row, std::int64_t length, std::int64_t first,
                                              const Tap* __restrict__ taps, std::int64_t count) {
  double2 sum = make_double2(0.0, 0.0);
  const std::int64_t end = min(count, length - first);
  for (std::int64_t tap = max(-first, static_cast<std::int64_t>(0)); tap < end; ++tap) {
    add_term(sum, row[first + tap], taps[tap]);
  }
  return sum;
}

/// Source of the result whose span begins at sample `at` of its block.
enum class result_source { transform, zero, sum };
__device__ __forceinline__ result_source source_of(const block_pieces& measured,
                                                   const std::uint32_t* __restrict__ peaks, std::uint32_t least,
                                                   std::int64_t at, std::int64_t taps) {
  std::uint32_t inside = 0;
  std::uint32_t any = 0;
  const std::int64_t end = min(divide_up(at + taps, measured.piece), measured.pieces);
  for (std::int64_t piece = at / measured.piece; piece < end; ++piece) {
    const std::uint32_t peak = peaks[piece];
    any |= peak;
    if (piece * measured.piece >= at && (piece + 1) * measured.piece <= at + taps) {
      inside = max(inside, peak & ~not_finite);
    }
  }
  return any == 0                                     ? result_source::zero
         : (any & not_finite) == 0 && inside >= least ? result_source::transform
                                                      : result_source::sum;
}

__device__ __forceinline__ void place_sum(double2 sum, float* destination) {
  *destination = static_cast<float>(sum.x);
}
__device__ __forceinline__ void place_sum(double2 sum, float2* destination) {
  *destination = make_float2(static_cast<float>(sum.x), static_cast<float>(sum.y));
}

/// Stores the first rows.step results of each of `count` products, up to the end of its row of `results`. Spectra are
/// `pitch` bins apart.
template <class In, class Tap, class Result>
__global__ void __launch_bounds__(block_threads)
    store_blocks(const float2* __restrict__ spectra, block_rows rows, spectrum_choice choice, std::int64_t transform,
                 std::int64_t pitch, std::int64_t results, block_pieces measured, summed_rows<In, Tap> summed,
                 Result* __restrict__ output, std::int64_t count) {
  for (std::int64_t product = blockIdx.y; product < count; product += gridDim.y) {
    const std::int64_t pass_block = choice.block_of(product);
    const std::int64_t row = (choice.first_block + pass_block) / rows.blocks;
    const std::int64_t first = (choice.first_block + pass_block - row * rows.blocks) * rows.step;
    const std::uint32_t* const peaks = measured.peaks + pass_block * measured.pieces;
    const std::int64_t begin = rows.start + first;  // of the block's samples in its row
    const block_measure measure =
        measure_of(peaks, measured.pieces, divide_up(max(-begin, static_cast<std::int64_t>(0)), measured.piece),
                   min(transform, rows.length - begin) / measured.piece);
    const std::uint32_t template_peak = summed.template_peaks[choice.spectrum_of(product)];
    const std::int64_t of_bank = choice.first_of_bank + product % choice.bank;
    const Tap* const taps = summed.templates + (choice.group_of(product) * summed.bank + of_bank) * summed.taps;
    const bool usable = (template_peak & not_finite) == 0;
    const bool whole = usable && measure.whole;
    const int exponent =
        exponent_for(measure.highest, max_exponent) + exponent_for(template_peak, max_template_exponent);
    Result* const destination = output + (row * summed.bank + of_bank) * results + first;
    visit_along_x(min(rows.step, results - first), [&](std::int64_t at) {
      const bool inner = begin + at >= 0 && begin + at + summed.taps <= rows.length;
      const result_source source = !usable          ? result_source::sum
                                   : whole && inner ? result_source::transform
                                                    : source_of(measured, peaks, measure.least, at, summed.taps);
      if (source == result_source::transform) {
        destination[at] = scaled(result_at(spectra + product * pitch, at, transform, output), exponent);
      } else if (source == result_source::zero) {
        place_zero(destination + at);
      } else {
        place_sum(summed_result(summed.signal + row * rows.length, rows.length, begin + at, taps, summed.taps),
                  destination + at);
      }
    });
  }
}

}  // namespace penstock

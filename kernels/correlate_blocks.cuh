#pragma once

#include <cstdint>

#include "kernels/launch.cuh"

namespace penstock {

// Everything goes through forward transforms, as on the host (correlate_fft_host.cpp): complex rows by conjugates, real
// ones by the Hartley transform. So there are two kinds of cuFFT transforms only, complex and real to complex of even
// lengths, of which it is known that they keep their rows apart (docs/decisions/0007-frames-apart.md).

/// Rows cut into blocks: block `at` of the batch is block at % blocks of row at / blocks.
struct block_rows {
  std::int64_t length;  ///< elements of a row
  std::int64_t start;   ///< of a row's first block, relative to the row
  std::int64_t step;
  std::int64_t blocks;  ///< of a row
};

__device__ __forceinline__ void place(float value, float* to) {
  *to = value;
}
__device__ __forceinline__ void place(float value, float2* to) {
  *to = make_float2(value, 0.0F);
}
__device__ __forceinline__ void place(float2 value, float2* to) {
  *to = value;
}
__device__ __forceinline__ void place_zero(float* to) {
  *to = 0.0F;
}
__device__ __forceinline__ void place_zero(float2* to) {
  *to = make_float2(0.0F, 0.0F);
}

// In the kernels below the blocks of a pass lie along y of the grid, what belongs to one block along x.

/// Calls visit(place) for the places of this thread among `count`.
template <class Visit>
__device__ __forceinline__ void visit_along_x(std::int64_t count, Visit visit) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * block_threads;
  for (std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * block_threads + threadIdx.x; at < count;
       at += stride) {
    visit(at);
  }
}

/// The samples of `count` blocks from first_block on, `transform` of each; zeros beyond a row's ends.
template <class In, class Sample>
__global__ void __launch_bounds__(block_threads)
    load_blocks(const In* __restrict__ input, block_rows rows, std::int64_t first_block, std::int64_t transform,
                Sample* __restrict__ samples, std::int64_t count) {
  for (std::int64_t of_pass = blockIdx.y; of_pass < count; of_pass += gridDim.y) {
    const std::int64_t row = (first_block + of_pass) / rows.blocks;
    const std::int64_t block = first_block + of_pass - row * rows.blocks;
    const std::int64_t first = rows.start + block * rows.step;
    visit_along_x(transform, [&](std::int64_t at) {
      const std::int64_t from = first + at;
      if (from >= 0 && from < rows.length) {
        place(input[row * rows.length + from], samples + of_pass * transform + at);
      } else {
        place_zero(samples + of_pass * transform + at);
      }
    });
  }
}

/// Which template's spectrum belongs to a block of the pass.
struct spectrum_choice {
  std::int64_t first_block;
  std::int64_t blocks_a_template;
  std::int64_t first_template;  ///< the one that `templates` begins with

  __device__ std::int64_t of(std::int64_t block) const {
    return (first_block + block) / blocks_a_template - first_template;
  }
};

/// conj(Z) = conj(X) H / L, in place.
inline __global__ void __launch_bounds__(block_threads)
    multiply_complex(float2* samples, const float2* __restrict__ templates, spectrum_choice choice,
                     std::int64_t transform, float scale, std::int64_t count) {
  for (std::int64_t block = blockIdx.y; block < count; block += gridDim.y) {
    float2* const of_block = samples + block * transform;
    const float2* const of_template = templates + choice.of(block) * transform;
    visit_along_x(transform, [&](std::int64_t bin) {
      const float2 x = of_block[bin];
      const float2 h = of_template[bin];
      of_block[bin] = make_float2(scale * fmaf(x.x, h.x, x.y * h.y), scale * fmaf(x.x, h.y, -(x.y * h.x)));
    });
  }
}

/// g[k] = Re Z[k] - Im Z[k] and g[L - k] = Re Z[k] + Im Z[k] of Z = X conj(H) / L.
inline __global__ void __launch_bounds__(block_threads)
    multiply_real(const float2* __restrict__ spectra, const float2* __restrict__ templates, spectrum_choice choice,
                  std::int64_t transform, float scale, float* __restrict__ samples, std::int64_t count) {
  const std::int64_t bins = transform / 2 + 1;
  for (std::int64_t block = blockIdx.y; block < count; block += gridDim.y) {
    const float2* const of_block = spectra + block * bins;
    const float2* const of_template = templates + choice.of(block) * bins;
    float* const g = samples + block * transform;
    visit_along_x(bins, [&](std::int64_t bin) {
      const float2 x = of_block[bin];
      const float2 h = of_template[bin];
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

/// The first rows.step results of each of `count` blocks, as far as its row of `results` goes; `pitch` bins lie between
/// the spectra.
template <class Result>
__global__ void __launch_bounds__(block_threads)
    store_blocks(const float2* __restrict__ spectra, block_rows rows, std::int64_t first_block, std::int64_t transform,
                 std::int64_t pitch, std::int64_t results, Result* __restrict__ output, std::int64_t count) {
  for (std::int64_t of_pass = blockIdx.y; of_pass < count; of_pass += gridDim.y) {
    const std::int64_t row = (first_block + of_pass) / rows.blocks;
    const std::int64_t first = (first_block + of_pass - row * rows.blocks) * rows.step;
    Result* const to = output + row * results + first;
    visit_along_x(min(rows.step, results - first),
                  [&](std::int64_t at) { to[at] = result_at(spectra + of_pass * pitch, at, transform, output); });
  }
}

}  // namespace penstock

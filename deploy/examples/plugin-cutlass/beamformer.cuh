// The kernel of beamformer.cu, by the templates of CUTLASS.
//
//   power[b, i] = sum over t in window i of | sum over a of weight[b, a] * sample[a, t] |^2
//
// The samples of a beam are never in memory: a block computes a tile of them in registers, adds their squares to sums
// that it keeps in registers, and takes the next tile of the same window. Only the sums are written.
//
// The complex product is a real one. The samples of a frame, [antennas, samples] of (re, im), are a real matrix of
// [antennas, 2 samples] as they are. The rows of the weights are arranged in groups of 16: the real parts of 8 beams,
// then their imaginary parts. The tensor cores' instruction (m16n8k8) then gives one thread all four real products of
// a beam and a sample: rows r and r + 8, and two neighbouring columns. So z needs no other thread.
//
// The mainloop is CUTLASS's own for f32 on tensor cores: each factor is cut into two numbers of TF32, and three
// products of these are added (OpMultiplyAddFastF32), which is as exact as f32. TF32 alone would be off by 1e-3.
#pragma once

#include <cstdint>

#include <cuda_runtime.h>
#include <cutlass/gemm/threadblock/default_mma.h>
#include <cutlass/layout/matrix.h>

// CUTLASS compiles for older GPUs too, into a kernel that multiplies nothing.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#error "The tensor cores of this kernel came with sm_80: set CMAKE_CUDA_ARCHITECTURES to 80 or more."
#endif

namespace beamformer {

using tile_shape = cutlass::gemm::GemmShape<128, 128, 16>;  // 64 beams, 64 samples, 16 antennas at a time
using warp_shape = cutlass::gemm::GemmShape<32, 64, 16>;
using instruction_shape = cutlass::gemm::GemmShape<16, 8, 8>;
constexpr int stages = 4;

// Elements beyond the end of a window must count as zero, so that their squares may be added: kZfill.
using mainloop = cutlass::gemm::threadblock::DefaultMma<
    float, cutlass::layout::RowMajor, 4, float, cutlass::layout::RowMajor, 4, float, cutlass::layout::RowMajor,
    cutlass::arch::OpClassTensorOp, cutlass::arch::Sm80, tile_shape, warp_shape, instruction_shape, stages,
    cutlass::arch::OpMultiplyAddFastF32, false, cutlass::gemm::SharedMemoryClearOption::kZfill>::ThreadblockMma;

constexpr int threads = 32 * mainloop::WarpCount::kCount;
constexpr int beams_of_group = 8;
constexpr int rows_of_group = 2 * beams_of_group;
constexpr int beams_of_tile = tile_shape::kM / 2;
constexpr int beams_of_warp = warp_shape::kM / 2;
constexpr int groups_of_warp = warp_shape::kM / rows_of_group;
constexpr int columns_of_warp = warp_shape::kN / instruction_shape::kN;
static_assert(mainloop::WarpCount::kK == 1 &&
              mainloop::Operator::FragmentC::kElements == 4 * groups_of_warp * columns_of_warp);

// Aligned to 16 bytes: antennas and the samples of a window and of a frame are multiples of 4 and of 2.
constexpr int antennas_multiple = 4;
constexpr int samples_multiple = 2;

struct problem {
  std::int32_t beams;
  std::int32_t antennas;
  std::int32_t samples;  // of a frame
  std::int32_t window;   // samples that a sum is over; a divisor of `samples`

  std::int32_t windows() const { return samples / window; }
  std::int32_t tiles() const { return (beams + beams_of_tile - 1) / beams_of_tile; }
  // Floats of the arranged weights.
  std::int64_t weights() const { return std::int64_t{tiles()} * tile_shape::kM * antennas; }
  std::int64_t blocks(std::int64_t frames) const { return frames * windows() * tiles(); }
};

// The kernel's only parameter. The layouts are CUTLASS's precomputed strides, made on the host.
struct arguments {
  typename mainloop::IteratorA::Params weights_layout;
  typename mainloop::IteratorB::Params samples_layout;
  const float* weights;
  const float* samples;
  float* power;
  std::int32_t beams, antennas, samples_of_frame, window, windows, tiles;
};

inline arguments arguments_of(const problem& problem, const float* arranged_weights) {
  return {cutlass::layout::RowMajor(problem.antennas),
          cutlass::layout::RowMajor(2 * problem.samples),
          arranged_weights,
          nullptr,
          nullptr,
          problem.beams,
          problem.antennas,
          problem.samples,
          problem.window,
          problem.windows(),
          problem.tiles()};
}

// `weights`: [beams, antennas] of (re, im). Beams that are missing in the last tile are zero.
template <class Real>
void arrange(const problem& problem, const Real* weights, float* arranged) {
  for (std::int64_t at = 0; at < problem.weights(); ++at) {
    const std::int64_t row = at / problem.antennas;
    const std::int64_t beam = row / rows_of_group * beams_of_group + row % beams_of_group;
    const bool imaginary = row % rows_of_group >= beams_of_group;
    arranged[at] = beam < problem.beams
                       ? static_cast<float>(weights[2 * (beam * problem.antennas + at % problem.antennas) + imaginary])
                       : 0.0f;
  }
}

// Each block has one window of one frame, and one tile of beams; neighbours have the same samples.
__global__ void __launch_bounds__(threads) sum_powers(const __grid_constant__ arguments self) {
  extern __shared__ __align__(128) unsigned char shared[];
  auto& storage = *reinterpret_cast<typename mainloop::SharedStorage*>(shared);
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = cutlass::canonical_warp_idx_sync();
  const int lane = thread % 32;
  const int warp_row = warp % mainloop::WarpCount::kM;
  const int warp_column = warp / mainloop::WarpCount::kM;
  const int tile = static_cast<int>(blockIdx.x) % self.tiles;
  const std::int64_t frame_window = static_cast<int>(blockIdx.x) / self.tiles;
  const std::int64_t frame = frame_window / self.windows;
  const int window = static_cast<int>(frame_window % self.windows);
  const float* const samples =
      self.samples + 2 * (frame * self.antennas * self.samples_of_frame + std::int64_t{window} * self.window);
  const int columns = 2 * self.window;

  const auto weights_from_start = [&] {
    return
        typename mainloop::IteratorA(self.weights_layout, const_cast<float*>(self.weights),
                                     {self.tiles * tile_shape::kM, self.antennas}, thread, {tile * tile_shape::kM, 0});
  };
  const auto samples_from = [&](int column) {
    return typename mainloop::IteratorB(self.samples_layout, const_cast<float*>(samples), {self.antennas, columns},
                                        thread, {0, column});
  };
  const int steps = (self.antennas + tile_shape::kK - 1) / tile_shape::kK;

  float power[groups_of_warp] = {};
  mainloop multiply(storage, thread, warp, lane);
  typename mainloop::IteratorA a = weights_from_start();
  typename mainloop::IteratorB b = samples_from(0);
  int steps_left = steps;
  multiply.prologue(a, b, steps_left);
  for (int column = 0; column < columns; column += tile_shape::kN) {
    typename mainloop::FragmentC product;
    product.clear();
    multiply.gmem_wait();
    multiply.gemm_iters(steps_left, product, a, b);
    if (column + tile_shape::kN < columns) {  // the next tile's first loads, during the squares
      multiply.wind_down();
      a = weights_from_start();
      b = samples_from(column + tile_shape::kN);
      steps_left = steps;
      multiply.prologue(a, b, steps_left);
    }
    for (int n = 0; n < columns_of_warp; ++n) {
      for (int m = 0; m < groups_of_warp; ++m) {
        const int at = 4 * (m + n * groups_of_warp);  // Re w * (re x, im x), then Im w * (re x, im x)
        const float re = product[at] - product[at + 3];
        const float im = product[at + 1] + product[at + 2];
        power[m] = fmaf(re, re, fmaf(im, im, power[m]));
      }
    }
  }

  // Four neighbouring lanes have the columns of a row, and each column of warps has its own: always added in the same
  // order, so that a frame's sums do not depend on the batch.
  __syncthreads();
  float* const sums = reinterpret_cast<float*>(shared);
  for (int m = 0; m < groups_of_warp; ++m) {
    power[m] += __shfl_xor_sync(0xffffffffu, power[m], 1);
    power[m] += __shfl_xor_sync(0xffffffffu, power[m], 2);
    if (lane % 4 == 0) {
      sums[warp_column * beams_of_tile + warp_row * beams_of_warp + m * beams_of_group + lane / 4] = power[m];
    }
  }
  __syncthreads();
  const int beam = tile * beams_of_tile + thread;
  if (thread < beams_of_tile && beam < self.beams) {
    float sum = 0.0f;
    for (int each = 0; each < mainloop::WarpCount::kN; ++each) {
      sum += sums[each * beams_of_tile + thread];
    }
    self.power[(frame * self.beams + beam) * self.windows + window] = sum;
  }
}

constexpr int shared_bytes = static_cast<int>(sizeof(typename mainloop::SharedStorage));

// Once for each device.
inline cudaError_t allow_shared_bytes() {
  return cudaFuncSetAttribute(sum_powers, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
}

}  // namespace beamformer

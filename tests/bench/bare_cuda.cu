#include <algorithm>

#include "tests/bench/bare_cuda.hpp"

namespace penstock::bench {
namespace {

constexpr unsigned threads = 256;
constexpr unsigned max_blocks = 512;

unsigned blocks_for(const affine_arguments& arguments) {
  return std::clamp((arguments.floats / 4 + threads - 1) / threads, 1U, max_blocks);
}

__device__ void compute(const affine_arguments& arguments) {
  const float4* input = reinterpret_cast<const float4*>(arguments.input);
  float4* output = reinterpret_cast<float4*>(arguments.output);
  for (unsigned at = blockIdx.x * blockDim.x + threadIdx.x; at < arguments.floats / 4; at += gridDim.x * blockDim.x) {
    const float4 value = input[at];
    output[at] = make_float4(2 * value.x + 1, 2 * value.y + 1, 2 * value.z + 1, 2 * value.w + 1);
  }
}

__global__ void affine(affine_arguments arguments) {
  compute(arguments);
}

// Blocks of one launch count themselves; launches of one stream follow one another, so only one thread writes the flag.
__global__ void affine_with_flag(affine_arguments arguments, flag_words words) {
  compute(arguments);
  __threadfence_system();  // what this thread wrote is seen before what its block counts
  __syncthreads();
  if (threadIdx.x == 0 && atomicAdd(words.blocks_done, 1U) == gridDim.x - 1) {
    *words.blocks_done = 0;
    const unsigned launches = ++*words.launches;
    __threadfence_system();
    *static_cast<volatile unsigned*>(words.flag) = launches;
  }
}

}  // namespace

// Not by <<<>>>: its error is the thread's last one, which may stem from an earlier query that found nothing done.
void launch_affine(cudaStream_t stream, const affine_arguments& arguments) {
  affine_arguments copy = arguments;
  void* parameters[] = {&copy};
  require(cudaLaunchKernel(affine, dim3(blocks_for(arguments)), dim3(threads), parameters, 0, stream),
          "the launch of affine");
}

void launch_affine_with_flag(cudaStream_t stream, const affine_arguments& arguments, const flag_words& words) {
  affine_arguments copy = arguments;
  flag_words words_copy = words;
  void* parameters[] = {&copy, &words_copy};
  require(cudaLaunchKernel(affine_with_flag, dim3(blocks_for(arguments)), dim3(threads), parameters, 0, stream),
          "the launch of affine_with_flag");
}

}  // namespace penstock::bench

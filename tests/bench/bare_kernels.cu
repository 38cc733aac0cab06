#include <algorithm>

#include "tests/bench/bare_cuda.hpp"
#include "tests/bench/bare_kernels.hpp"

namespace penstock::bench {
namespace {

constexpr unsigned threads = 256;
constexpr unsigned most_blocks = 512;

unsigned blocks_for(const affine_arguments& of) {
  return std::clamp((of.floats / 4 + threads - 1) / threads, 1U, most_blocks);
}

__device__ void compute(const affine_arguments& of) {
  const float4* input = reinterpret_cast<const float4*>(of.input);
  float4* output = reinterpret_cast<float4*>(of.output);
  for (unsigned at = blockIdx.x * blockDim.x + threadIdx.x; at < of.floats / 4; at += gridDim.x * blockDim.x) {
    const float4 value = input[at];
    output[at] =
        make_float4(2 * value.x + of.offset, 2 * value.y + of.offset, 2 * value.z + of.offset, 2 * value.w + of.offset);
  }
}

// Only one thread at a time is here: blocks of one launch count themselves, launches follow one another in a stream.
__device__ void tell_host(const flag_words& words) {
  const unsigned told = ++*words.told;
  __threadfence_system();
  *static_cast<volatile unsigned*>(words.flag) = told;
}

__global__ void affine(affine_arguments of) {
  compute(of);
}

__global__ void affine_and_tell(affine_arguments of, flag_words words) {
  compute(of);
  __threadfence_system();  // what this thread wrote is seen before what its block counts
  __syncthreads();
  if (threadIdx.x == 0 && atomicAdd(words.blocks_done, 1U) == gridDim.x - 1) {
    *words.blocks_done = 0;
    tell_host(words);
  }
}

__global__ void tell(flag_words words) {
  tell_host(words);
}

}  // namespace

// Not by <<<>>>, whose error is the thread's last one: that may be of a query before it that found nothing done.
void launch_affine(cudaStream_t on, const affine_arguments& arguments) {
  affine_arguments of = arguments;
  void* parameters[] = {&of};
  require(cudaLaunchKernel(affine, dim3(blocks_for(of)), dim3(threads), parameters, 0, on), "the launch of affine");
}

void launch_affine_and_tell(cudaStream_t on, const affine_arguments& arguments, const flag_words& words) {
  affine_arguments of = arguments;
  flag_words to = words;
  void* parameters[] = {&of, &to};
  require(cudaLaunchKernel(affine_and_tell, dim3(blocks_for(of)), dim3(threads), parameters, 0, on),
          "the launch of affine_and_tell");
}

void launch_tell(cudaStream_t on, const flag_words& words) {
  flag_words to = words;
  void* parameters[] = {&to};
  require(cudaLaunchKernel(tell, dim3(1), dim3(1), parameters, 0, on), "the launch of tell");
}

}  // namespace penstock::bench

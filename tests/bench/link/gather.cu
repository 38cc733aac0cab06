#include <algorithm>

#include "tests/bench/bare_cuda.hpp"
#include "tests/bench/link/gather.hpp"

namespace penstock::bench {
namespace {

constexpr unsigned threads = 256;
constexpr unsigned most_blocks = 512;

// A word is what one thread moves at a time: neighbours move neighbours, so that a warp's reads are one of 512 bytes.
__device__ void move_words(const piece_list& list, bool in) {
  const unsigned words_a_piece = list.piece_bytes / sizeof(uint4);
  const unsigned words = list.pieces * words_a_piece;
  uint4* const device = reinterpret_cast<uint4*>(list.device);
  for (unsigned word = blockIdx.x * blockDim.x + threadIdx.x; word < words; word += gridDim.x * blockDim.x) {
    const unsigned piece = word / words_a_piece;
    uint4* const host = reinterpret_cast<uint4*>(list.host[piece]) + (word - piece * words_a_piece);
    if (in) {
      device[word] = *host;
    } else {
      *host = device[word];
    }
  }
}

__global__ void gather(const __grid_constant__ piece_list list) {
  move_words(list, true);
}

__global__ void scatter(const __grid_constant__ piece_list list) {
  move_words(list, false);
}

void launch(cudaStream_t on, const piece_list& list, const void* kernel, const char* call) {
  const unsigned words = list.pieces * (list.piece_bytes / static_cast<unsigned>(sizeof(uint4)));
  const unsigned blocks = std::clamp((words + threads - 1) / threads, 1U, most_blocks);
  void* parameters[] = {const_cast<piece_list*>(&list)};
  require(cudaLaunchKernel(kernel, dim3(blocks), dim3(threads), parameters, 0, on), call);
}

}  // namespace

void launch_gather(cudaStream_t on, const piece_list& list) {
  launch(on, list, reinterpret_cast<const void*>(gather), "the launch of gather");
}

void launch_scatter(cudaStream_t on, const piece_list& list) {
  launch(on, list, reinterpret_cast<const void*>(scatter), "the launch of scatter");
}

}  // namespace penstock::bench

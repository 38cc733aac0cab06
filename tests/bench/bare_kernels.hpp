#pragma once

#include <cuda_runtime_api.h>

namespace penstock::bench {

/// output = 2 × input + offset. Device or mapped memory, aligned to 16 bytes; `floats` is a multiple of 4. In place is
/// allowed.
struct affine_arguments {
  const float* input;
  float* output;
  unsigned floats;
  float offset;
};

/// What a kernel needs to tell the host: `flag`, in mapped memory, becomes how often it was told. The other two are in
/// device memory and start at 0.
struct flag_words {
  unsigned* flag;
  unsigned* told;
  unsigned* blocks_done;
};

/// They enqueue, and throw std::runtime_error when the launch fails.
void launch_affine(cudaStream_t on, const affine_arguments& arguments);
/// The last of its blocks tells.
void launch_affine_and_tell(cudaStream_t on, const affine_arguments& arguments, const flag_words& words);
/// Tells that everything before it in the stream is done.
void launch_tell(cudaStream_t on, const flag_words& words);

}  // namespace penstock::bench
